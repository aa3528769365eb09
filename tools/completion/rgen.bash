# bash completion for rgen: source it, or install it as share/bash-completion/completions/rgen.

_rgen() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
  local common='--hw -D --threads --top-k --no-measure --json --help'
  local compiler='--compiler --no-cache' measuring='--cc --jit --seed --seconds --device'
  COMPREPLY=()

  _rgen_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
  _rgen_files() {
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames
  }
  _rgen_profiles() {
    # The first column of the list, without its header.
    local shipped
    shipped=$(rgen profile list 2>/dev/null | awk 'NR > 1 { print $1 }')
    mapfile -t COMPREPLY < <(compgen -W "host $shipped" -- "$cur"; compgen -f -- "$cur")
    compopt -o filenames
  }

  if ((COMP_CWORD == 1)); then
    _rgen_words 'gen run predict explain bench profile cache ops --hw --help --version'
    return
  fi
  case $prev in
    --hw) _rgen_profiles; return ;;
    --emit) _rgen_words 'cpp so obj cuda llvm cubin ptx'; return ;;
    --compiler) mapfile -t COMPREPLY < <(compgen -c -- "$cur"); return ;;
    -o | --output | --html) _rgen_files; return ;;
    -D | --threads | --top-k | --seed | --seconds | --device) return ;;
  esac
  case $verb in
    gen | -*) [[ $cur == -* ]] && _rgen_words "$common $compiler -o --output --emit" || _rgen_files ;;
    run | bench) [[ $cur == -* ]] && _rgen_words "$common $compiler $measuring" || _rgen_files ;;
    predict) [[ $cur == -* ]] && _rgen_words "$common" || _rgen_files ;;
    explain) [[ $cur == -* ]] && _rgen_words "$common --html" || _rgen_files ;;
    profile)
      if ((COMP_CWORD == 2)); then
        _rgen_words 'list show check diff new'
      elif [[ $cur == -* ]]; then
        _rgen_words '--json --no-measure --output --help'
      else
        _rgen_profiles
      fi
      ;;
    cache) _rgen_words 'info clear --json' ;;
    ops) _rgen_words "--json $(rgen ops 2>/dev/null | awk 'NR > 1 { print $1 }')" ;;
  esac
}

complete -F _rgen rgen

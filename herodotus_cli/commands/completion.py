"""`kubectl herodotus completion SHELL`: a script that completes `kubectl herodotus` and `kubectl-herodotus` in a shell.

kubectl completes the arguments of a plugin itself: it runs `kubectl_complete-herodotus`, found on PATH. The script
therefore loads kubectl's completion where it is missing. For the name `kubectl-herodotus`, it runs that program itself.

Owns: the scripts. Does not own: the candidates (`herodotus_cli.completion`).
"""

from __future__ import annotations

import click

from herodotus_cli import options
from herodotus_cli.environment import environment_of

_BASH = """\
# kubectl herodotus: completion for bash.  source <(kubectl herodotus completion bash)
_kubectl_herodotus() {
    local line prefix first=1
    local -a words
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    if [[ ${1##*/} != kubectl-herodotus ]]; then
        first=2
        [[ ${words[1]} == herodotus && ${#words[@]} -gt 2 ]] || { compopt -o default; return; }
    fi
    prefix=${words[*]: -1}
    prefix=${prefix%"$2"}  # bash completes what follows the last = or :
    while IFS= read -r line; do
        case $line in
            :4) ;;
            :0) compopt -o default ;;
            *) line=${line%%$'\\t'*}; COMPREPLY+=("${line#"$prefix"}") ;;
        esac
    done < <(kubectl_complete-herodotus "${words[@]:first}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]]; then compopt -o nospace; fi
}
complete -F _kubectl_herodotus kubectl-herodotus
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    for file in /usr/share/bash-completion/bash_completion /opt/homebrew/etc/profile.d/bash_completion.sh; do
        [[ -r $file ]] && source "$file" && break
    done
fi
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    echo "note: in bash, kubectl completes its own commands only with the package bash-completion" >&2
    complete -F _kubectl_herodotus kubectl
elif ! complete -p kubectl >/dev/null 2>&1; then
    source <(kubectl completion bash)
fi
"""
_ZSH = """\
#compdef kubectl-herodotus
# kubectl herodotus: completion for zsh.  source <(kubectl herodotus completion zsh)
if (( ! $+functions[_kubectl] )); then
    source <(kubectl completion zsh)
fi
_kubectl_herodotus() {
    local line
    local -a found
    for line in "${(@f)$(kubectl_complete-herodotus "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            :4) ;;
            :0) _files ;;
            *) found+=("${${line%%$'\\t'*}//:/\\\\:}${${line#*$'\\t'}:+:${line#*$'\\t'}}") ;;
        esac
    done
    _describe 'kubectl-herodotus' found
}
compdef _kubectl_herodotus kubectl-herodotus
"""
_FISH = """\
# kubectl herodotus: completion for fish.  kubectl herodotus completion fish | source
functions -q __kubectl_perform_completion; or kubectl completion fish | source
function __kubectl_herodotus_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (kubectl_complete-herodotus $words[2..-1] 2>/dev/null)
        switch $line
            case ':4'
            case ':0'
                __fish_complete_path (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c kubectl-herodotus -f -a '(__kubectl_herodotus_complete)'
"""
_POWERSHELL = """\
# kubectl herodotus: completion for PowerShell.
# kubectl herodotus completion powershell | Out-String | Invoke-Expression
kubectl completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName 'kubectl-herodotus' -ScriptBlock {
    param($word, $ast, $position)
    $words = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($word -eq '') { $words += '' }
    & kubectl_complete-herodotus @words 2>$null | Where-Object { $_ -notmatch '^:\\d+$' } | ForEach-Object {
        $value, $help = $_ -split "`t", 2
        if (-not $help) { $help = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $help)
    }
}
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


@options.command(short_help="Print a script that completes these commands in your shell.")
@click.argument("shell", type=click.Choice(tuple(SCRIPTS)))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print a script that completes these commands in a shell, with names of pods and nodes.

    kubectl completes them once its own completion is loaded and kubectl_complete-herodotus is on PATH, where install.sh
    puts it. The script loads kubectl's completion, and completes kubectl-herodotus, too. In bash, kubectl's completion
    needs the package bash-completion; without it, the script completes kubectl herodotus alone. The script for
    PowerShell is not tested.

    \b
    source <(kubectl herodotus completion bash)
    kubectl herodotus completion zsh > "${fpath[1]}/_kubectl-herodotus"
    kubectl herodotus completion fish | source
    kubectl herodotus completion powershell | Out-String | Invoke-Expression
    """
    environment_of(ctx).out.write(SCRIPTS[shell])

"""The page of all rules, generated from the rules themselves; `docs/lint.md` is its output and a test compares them.

python -c "from dure.manifest.guide import lint_page; print(lint_page(), end='')" > docs/lint.md
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.manifest.rule import Rule
from dure.manifest.rules import RULES

_HEAD = """\
# dure lint

Finds known traps in Kubernetes manifests around accelerators: Karpenter, KEDA, HorizontalPodAutoscaler, DCGM,
Prometheus. All files are judged together, because most traps lie between two objects; folders that define the same
object and have a kustomization or a chart each are taken for different clusters. It needs neither a cluster nor a
running Dure.

```
dure lint manifests/                  every YAML and JSON file below a folder
kubectl get so,hpa -A -o yaml | dure lint -
dure lint --cluster --context prod    what is in a live cluster (reads only); --kubeconfig FILE as with kubectl
dure lint --fix scaledobject.yaml     mend what is safe to mend; the rest of the file stays as it is
dure lint --json manifests/           a list of {code, severity, file, line, path, message, why, fix}
dure lint --format sarif .            for code scanning; --format github for annotations of a pull request
dure lint --select DURE001,DURE004 .  only some rules; --ignore leaves some out
dure lint --explain DURE001           one rule with an example
```

Exit codes: 0 nothing found, 1 findings, 2 wrong input (files that can be read are judged all the same). JSON
stays JSON when it is mended. An object that is as it should be says so itself:
`metadata.annotations: {dure.dev/lint-ignore: "DURE009, DURE018"}`.

With `--cluster` the objects are read from the API server and named as `kubectl get` would name them
(`scaledobjects/prod/chat`); lines are those of their YAML. What a controller made for another object, and numbers of
replicas, which an autoscaler may have set, are not judged. Kinds that the account may not list are named on standard
error.

An **error** does not work or does harm; a **warning** works otherwise than its author will expect. Rules need
evidence: what the files at hand cannot show (a node class or a Service kept elsewhere) is not reported.

"""


def lint_page(rules: Sequence[Rule] = RULES) -> str:
    rows = [
        f"| [{rule.code}](#{rule.code.lower()}) | {rule.severity} | {rule.title} | {'yes' if rule.fixable else ''} |"
        for rule in rules
    ]
    table = "\n".join(["| code | severity | trap | --fix |", "|---|---|---|---|", *rows])
    return _HEAD + table + "\n" + "".join(_section(rule) for rule in rules)


def _section(rule: Rule) -> str:
    return (
        f"\n## {rule.code}\n\n**{rule.title}** ({rule.severity})\n\n{rule.why}\n\nFix: {rule.fix}\n\n"
        f"Before:\n\n```yaml\n{rule.before}\n```\n\nAfter:\n\n```yaml\n{rule.after}\n```\n"
    )

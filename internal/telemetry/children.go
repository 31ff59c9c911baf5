package telemetry

import "strings"

// The parts of the IDs of jobs that other jobs start, and the labels that the dialect has for what follows.
var childParts = map[string]string{"/dispatch-": "dispatch_id", "/periodic-": "periodic_id"}

// ChildLabels returns the labels that a job has besides others because another one has started it.
func ChildLabels(id, parent string) map[string]string {
	l := map[string]string{}
	if parent == "" {
		return l
	}
	l["parent_id"] = parent
	for part, name := range childParts {
		if rest, ok := strings.CutPrefix(id, parent+part); ok {
			l[name] = rest
		}
	}
	return l
}

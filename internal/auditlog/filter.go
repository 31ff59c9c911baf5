package auditlog

import (
	"slices"
	"strings"

	"berth/structs/validate/field"
)

// httpEvent is the only type of a filter, by the name of the dialect.
const httpEvent = "HTTPEvent"

// anyText fits each text.
const anyText = "*"

func (c *Filter) check(f field.Errors) {
	name := shown(c.Name)
	f.Require(isName(c.Name), "filter %q: "+nameRule, name)
	f.Require(c.Type == httpEvent,
		"filter %q: type is %q; expected %s, the only one", name, shown(c.Type), httpEvent)
	lists := [][]string{c.Endpoints, c.Stages, c.Operations}
	total := 0
	for _, list := range lists {
		total += len(list)
		f.AtMost("entries of a list of filter "+name, len(list), maxPatterns)
	}
	f.Require(total > 0, "filter %q: expected endpoints, stages or operations, found none", name)
	for _, stage := range c.Stages {
		f.Require(slices.Contains([]string{anyText, Received, Complete}, stage),
			"filter %q: stage %q; expected %s, %s or *", name, shown(stage), Received, Complete)
	}
	for _, list := range lists {
		for _, entry := range list {
			f.Require(entry != "" && len(entry) <= 1024, "filter %q: an entry has %d bytes; expected 1 to 1024", name,
				len(entry))
		}
	}
}

// leavesOut reports whether a filter takes the event.
func leavesOut(filters []*Filter, e *Event) bool {
	if e.Kind == KindForced {
		return false
	}
	return slices.ContainsFunc(filters, func(f *Filter) bool {
		return fits(f.Endpoints, e.Endpoint) && fits(f.Stages, e.Stage) &&
			(fits(f.Operations, e.Operation) || fits(f.Operations, e.Method))
	})
}

func fits(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return match(p, text) })
}

// match compares a text with a pattern, in which * is any text.
func match(pattern, text string) bool {
	parts := strings.Split(pattern, anyText)
	if len(parts) == 1 {
		return pattern == text
	}

	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

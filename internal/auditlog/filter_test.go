package auditlog

import (
	"testing"

	"berth/test/kit"
)

func TestLog_FiltersEvents(t *testing.T) {
	for name, c := range map[string]struct {
		filter Filter
		event  Event
		want   bool // left out
	}{
		"a path":             {Filter{Endpoints: []string{"/v1/var/*"}}, Event{Endpoint: "/v1/var/a"}, true},
		"another path":       {Filter{Endpoints: []string{"/v1/var/*"}}, Event{Endpoint: "/v1/vars"}, false},
		"inside of a path":   {Filter{Endpoints: []string{"/v1/*/x/*/e"}}, Event{Endpoint: "/v1/a/x/b/e"}, true},
		"another end":        {Filter{Endpoints: []string{"/v1/*/x/*/e"}}, Event{Endpoint: "/v1/a/x/b/f"}, false},
		"not inside":         {Filter{Endpoints: []string{"/v1/*/x/*/e"}}, Event{Endpoint: "/v1/a/y/b/e"}, false},
		"a missing part":     {Filter{Endpoints: []string{"/v1/*x*"}}, Event{Endpoint: "/v1/abc"}, false},
		"another order":      {Filter{Endpoints: []string{"*x*y*"}}, Event{Endpoint: "yx"}, false},
		"an exact path":      {Filter{Endpoints: []string{"/v1/jobs"}}, Event{Endpoint: "/v1/jobs/x"}, false},
		"one of several":     {Filter{Operations: []string{"PUT", "POST"}}, Event{Operation: "POST"}, true},
		"a remote procedure": {Filter{Operations: []string{"Var.*"}}, Event{Method: "Var.Apply"}, true},
		"a stage":            {Filter{Stages: []string{Received}}, Event{Stage: Received}, true},
		"another stage":      {Filter{Stages: []string{Received}}, Event{Stage: Complete}, false},
		"all lists fit":      {Filter{Stages: []string{"*"}, Operations: []string{"PUT"}}, Event{}, false},
		"a forced action":    {Filter{Stages: []string{"*"}}, Event{Kind: KindForced}, false},
	} {
		if got := leavesOut([]*Filter{{Operations: []string{"none"}}, &c.filter}, &c.event); got != c.want {
			t.Errorf("%s: left out is %t, want %t", name, got, c.want)
		}
	}

	w := newWorld(t)
	c := Config{Enabled: true, Filters: []*Filter{{Stages: []string{Received}}}}
	c.Finish(w.dir)
	l, err := Open(c, w.deps())
	kit.Must(t, err)
	defer l.Close()
	w.change(l, "x")
	if got := w.lines(w.path("audit.log")); got != "xc" {
		t.Errorf("got the lines %q", got)
	}
}

package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/api/areas"
)

// TestRoutes_AreInOrder checks that the list does not depend on the order of declarations. It has the order
// of paths. Of one path, reads come first and removals last.
func TestRoutes_AreInOrder(t *testing.T) {
	var lines []string
	for _, r := range areas.Routes() {
		lines = append(lines, r.Path+" "+r.Methods)
	}
	place := map[string]string{
		"GET":      "1",
		"PUT POST": "2",
		"DELETE":   "3",
	}
	sorted := slices.Clone(lines)
	slices.SortFunc(sorted, func(a, b string) int {
		pathA, methodsA, _ := strings.Cut(a, " ")
		pathB, methodsB, _ := strings.Cut(b, " ")
		return strings.Compare(pathA+" "+place[methodsA], pathB+" "+place[methodsB])
	})
	if !slices.Equal(lines, sorted) ||
		len(slices.Compact(sorted)) != len(lines) {
		t.Errorf("the routes are not sorted:\n%s", strings.Join(lines, "\n"))
	}
}

// checkPathOnly calls a route with an ID and nothing else: it calls one procedure, and passes the ID on.
func (s *server) checkPathOnly(t *testing.T, r api.Route) {
	t.Helper()
	for _, method := range strings.Fields(r.Methods) {
		path := strings.ReplaceAll(r.Path, "{id}", "an%2Fid")
		resp, body := s.do(t, method, path, "")
		calls := s.caller.Take()
		if len(calls) != 1 || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s %s called %v, want one procedure: %d %s",
				method, path, calls, resp.StatusCode, body)
			continue
		}
		asked, err := json.Marshal(calls[0].Request)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Path, "{id}") != strings.Contains(string(asked), `"an/id"`) {
			t.Errorf("%s %s sent %s", method, path, asked)
		}
	}
}

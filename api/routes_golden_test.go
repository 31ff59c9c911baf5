package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/api/areas"
)

var update = flag.Bool("update", false, "write testdata/routes.json again")

// recordRoutes calls each route, and returns the requests with the procedures that they have called.
func recordRoutes(t *testing.T) (all []apitest.RouteRequest) {
	s := newServer(t)
	calls := routeCalls()
	for _, r := range areas.Routes() {
		method := strings.Fields(r.Methods)[0]
		call := calls[method+" "+r.Path]
		path := cmp.Or(call.path, strings.ReplaceAll(r.Path, "{id}", "an-id"))
		_, _ = s.do(t, method, path, call.body)
		recorded := apitest.RouteRequest{
			Route: method + " " + r.Path,
			Path:  path,
			Body:  call.body,
		}
		for _, asked := range s.caller.Take() {
			recorded.Procedure = asked.Method
		}
		all = append(all, recorded)
	}
	return all
}

// The list of routes with their procedures is that of the code: the reference of routes and the table of
// their rights read it.
func TestRoutes_HaveTheirProceduresInTheList(t *testing.T) {
	const file = "testdata/routes.json"
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(recordRoutes(t))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		err := os.WriteFile(file, want.Bytes(), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s differs from the routes (%v); run `make goldens`", file, err)
	}
}

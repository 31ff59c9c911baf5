package apitest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// RouteRequest is a request to a route.
type RouteRequest struct {
	Route     string // the method and the pattern of the path
	Path      string // with its query
	Body      string `json:",omitempty"`
	Procedure string `json:",omitempty"` // that the route calls; "" for one that the agent serves itself
}

// RouteRequests reads a request for each route of the API. root is the directory of the module. The tests of
// the API write the file.
func RouteRequests(t testing.TB, root string) (all []RouteRequest) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "api", "testdata", "routes.json"))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

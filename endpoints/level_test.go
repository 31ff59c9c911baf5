package endpoints_test

import (
	"context"
	"strings"
	"testing"

	"berth/endpoints"
	"berth/endpoints/endpointstest"
	"berth/endpoints/rights"
	"berth/structs"
)

// newerRequest is a request with a field of a later release.
type newerRequest struct {
	Name  string
	Bound *int `level:"3"`
	structs.WriteOptions
}

// TestRequests_GoNowhereWithAFieldThatAServerDrops has a server that leads or forwards, and another one of
// the level before the field. It would drop the field, and the answer would not say so.
func TestRequests_GoNowhereWithAFieldThatAServerDrops(t *testing.T) {
	const why = "Test.Bound: Bound needs level 3, and a server of the cluster has level 2"
	for name, c := range map[string]struct {
		least  int
		bound  *int
		served bool
	}{
		"a server is older":    {2, new(7), false},
		"the field is not set": {2, nil, true},
		"all servers know it":  {3, new(7), true},
	} {
		for _, leads := range []bool{true, false} {
			s := endpointstest.New(t)
			s.Level = func() int { return c.least }
			s.Raft.IsMe = leads
			s.Raft.OnForward = func(string, any, any) error { return nil }
			served := 0
			m := structs.Method[newerRequest, structs.Empty]{Name: "Test.Bound", Write: true}
			e := endpoints.Write(s.Endpoints, m, rights.None("a test"), func(
				context.Context, *newerRequest, *structs.Empty,
			) (uint64, error) {
				served++
				return 1, nil
			})
			_, err := e.Serve(t.Context(), &newerRequest{Name: "x", Bound: c.bound})
			if went := served+len(s.Raft.Forwards) == 1; went != c.served || (err == nil) != c.served {
				t.Errorf("%s, this one leads: %v: served or forwarded: %v, %v", name, leads, went, err)
			}
			if err != nil && (!structs.IsKind(err, structs.KindPrecondition) ||
				!strings.Contains(err.Error(), why)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

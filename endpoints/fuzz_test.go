package endpoints_test

import (
	"context"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// FuzzRequests: a request of any method with any content is served without a panic and keeps the invariants
// of the state.
func FuzzRequests(f *testing.F) {
	s := endpointstest.New(f)
	s.AddNode("n", "a")
	s.AddAlloc("a", "n")
	s.AddVolume("v")
	list := s.List()
	for i, e := range list {
		b, err := codec.Encode(e.New())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, method uint8, body []byte) {
		e := list[int(method)%len(list)]
		req := e.New()
		if codec.Decode(body, req) != nil {
			return // the listener rejects those
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := e.Serve(ctx, req)
		if err != nil && len(err.Error()) > structs.MaxErrorText+64 {
			t.Fatalf("%s: an error of %d bytes", e.Name, len(err.Error()))
		}
		if faults := state.Check(s.Store.Read()); len(faults) > 0 {
			t.Fatalf("%s leaves %v", e.Name, faults)
		}
	})
}

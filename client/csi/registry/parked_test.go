package registry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An operator's request for one volume, another process and another path leave the other calls parked. No
// timer ends that.
func TestParking_EndsByOperatorOrProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Parked{}
		why := errors.New("never")
		by := Answerer{Connections: 1}
		at := func(volume, rpc, path string) ParkedCall {
			return ParkedCall{volume, rpc, path}
		}
		v, w := at("v", "unpublish", "/a"), at("w", "unstage", "/w")
		p.answers = map[ParkedCall]rejection{v: {by, why}, w: {by, why}}
		for range 365 {
			time.Sleep(24 * time.Hour)
			if p.Rejected(v, by) != why {
				t.Fatalf("the call is not parked any more at %s", time.Now())
			}
		}
		others := []ParkedCall{at("v", "unpublish", "/b"), at("v", "unstage", "/a"), at("u", "unpublish", "/a")}
		for _, free := range others {
			if err := p.Rejected(free, by); err != nil {
				t.Errorf("%v: %v", free, err)
			}
		}
		if p.Rejected(w, Answerer{Connections: 2}) != nil {
			t.Error("the call is parked for another process")
		}
		p.Unpark("v")
		if p.Rejected(v, by) != nil || p.Rejected(w, by) != why {
			t.Errorf("Unpark left %v", p.answers)
		}
		p.RecordAnswer(w, by, nil)
		if p.Len() > 0 {
			t.Errorf("left after another answer: %v", p.answers)
		}
	})
}

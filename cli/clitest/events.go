package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs/event"
)

// answerEvents answers requests for events: a job that was registered, and a claim that was granted.
func (w *Cluster) answerEvents() {
	all := []*event.Event{
		{
			Topic:     event.Job,
			Type:      "JobRegistered",
			Key:       "web",
			Namespace: "default",
			Index:     7,
			Payload:   []byte(`{"Job":{"ID":"web"}}`),
		},
		{
			Topic:     event.Claim,
			Type:      "ClaimGranted",
			Key:       "data/" + Alloc1,
			Namespace: "default",
			Index:     9,
			Reason:    "no claim excludes it",
			Payload:   []byte(`{"Claim":{"VolumeID":"data"}}`),
		},
	}
	apitest.On(w.Caller, event.List, func(_ context.Context, r *event.ListRequest) (*event.ListResponse, error) {
		resp := &event.ListResponse{Next: r.After}
		for _, e := range all {
			if e.Index > r.After {
				resp.Events = append(resp.Events, e)
				resp.Next = e.Index
			}
		}
		return resp, nil
	})
}

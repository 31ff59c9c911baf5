package lookup

import (
	"context"
	"reflect"
	"testing"
	"time"

	"berth/structs"
)

// caller is a server.
type caller struct {
	got      any
	deadline time.Time
	rows     []*structs.ServiceRegistration
	names    []*structs.ServiceListStub
}

func (c *caller) Call(ctx context.Context, _ string, req, resp any) error {
	c.got = req
	c.deadline, _ = ctx.Deadline()
	switch resp := resp.(type) {
	case *structs.ServiceGetResponse:
		resp.Services = c.rows
		resp.Index = 9
	case *structs.ServiceListResponse:
		resp.Services = c.names
		resp.Index = 9
	}
	return nil
}

func TestServers_AnswerWithTheServicesOfANamespace(t *testing.T) {
	c := &caller{
		rows: []*structs.ServiceRegistration{
			{
				ID:          "i1",
				ServiceName: "web",
				NodeID:      "n1",
				Datacenter:  "dc1",
				JobID:       "j",
				AllocID:     "a1",
				Tags:        []string{"b", "a"},
				Meta:        map[string]string{"m": "1"},
				Address:     "10.0.0.1",
				Port:        80,
				Status:      structs.CheckFailing,
			},
			nil,
			{ID: "i2", Tags: []string{"c"}},
		},
		names: []*structs.ServiceListStub{{
			Services: []*structs.ServiceStub{{ServiceName: "web", Tags: []string{"b", "a"}}},
		}},
	}
	s := &Servers{Caller: c, Region: "here"}
	q, err := ParseChosen("team", "a.web@there", 2, "key")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Lookup(t.Context(), q, 7, time.Minute)
	want := []*Instance{{
		ID:         "i1",
		Name:       "web",
		Node:       "n1",
		Address:    "10.0.0.1",
		Port:       80,
		Datacenter: "dc1",
		Tags:       []string{"a", "b"},
		JobID:      "j",
		AllocID:    "a1",
		Meta:       map[string]string{"m": "1"},
		Status:     structs.CheckFailing,
	}}
	if err != nil || answer.Index != 9 || !reflect.DeepEqual(answer.Value, want) {
		t.Errorf("got %+v, %v", answer, err)
	}
	options := structs.QueryOptions{
		Region:    "there",
		Namespace: "team",
		MinIndex:  7,
		MaxWait:   time.Minute,
	}
	asked := &structs.ServiceGetRequest{ServiceName: "web", Choose: "2|key", QueryOptions: options}
	if !reflect.DeepEqual(c.got, asked) {
		t.Errorf("asked %+v", c.got)
	}
	if left := time.Until(c.deadline); left < time.Minute || left > 2*time.Minute {
		t.Errorf("the request may take %s", left)
	}

	names, err := ParseNames("team", "")
	if err != nil {
		t.Fatal(err)
	}
	answer, err = s.Lookup(t.Context(), names, 7, time.Minute)
	if err != nil || !reflect.DeepEqual(answer.Value, []*ServiceName{{"web", []string{"a", "b"}}}) {
		t.Errorf("got %+v, %v", answer, err)
	}
	options.Region = "here"
	if !reflect.DeepEqual(c.got, &structs.QueryRequest{QueryOptions: options}) {
		t.Errorf("asked %+v", c.got)
	}
}

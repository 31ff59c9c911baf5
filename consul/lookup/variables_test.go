package lookup

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/access"
)

// variableCaller is a server with a variable, or without.
type variableCaller struct {
	variable *access.OpenVariable
	got      []any
}

func (c *variableCaller) Call(_ context.Context, _ string, req, resp any) error {
	c.got = append(c.got, req)
	switch resp := resp.(type) {
	case *access.VariableGetResponse:
		if c.variable == nil {
			return structs.NotFoundf("there is no variable")
		}
		resp.Variable = c.variable
		resp.Index = 9
	case *access.VariableListResponse:
		resp.Index = 8
		if c.variable != nil {
			resp.Variables = []*access.VariableMetadata{&c.variable.VariableMetadata}
		}
	}
	return nil
}

func aVariable() *access.OpenVariable {
	v := &access.OpenVariable{Items: access.VariableItems{"b": "2", "a": `"1`}}
	v.Path = "nomad/jobs/j"
	v.Namespace = "team"
	v.ModifyIndex = 7
	v.ModifyTime = 3e9
	return v
}

// A node reads variables with its secret. Without a variable, the index of the list lets it wait for one.
func TestServers_AnswerWithAVariable(t *testing.T) {
	c := &variableCaller{}
	s := &Servers{Caller: c, Region: "here", Node: func() (string, string) { return "n1", "s1" }}
	q := ParseVariable("team", "/nomad/jobs/j")
	answer, err := s.Lookup(t.Context(), q, 0, time.Second)
	if err != nil || answer.Value.(*Variable) != nil || answer.Index != 8 {
		t.Fatalf("without a variable: %+v, %v", answer, err)
	}
	c.variable = aVariable()
	answer, err = s.Lookup(t.Context(), q, 8, time.Second)
	if err != nil || answer.Index != 9 {
		t.Fatalf("got %+v, %v", answer, err)
	}
	items := answer.Value.(*Variable).Items
	got := fmt.Sprint(items["b"], items.Keys(), items.Values(), items.Tuples(), items.Metadata(), items["a"].Metadata().ModifyTime)
	if want := `2 [a b] ["1 2] [{a "1} {b 2}] nomad/jobs/j 1970-01-01T00:00:03Z`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	req := c.got[2].(*access.VariableGetRequest)
	if req.NodeID != "n1" || req.SecretID != "s1" || req.MinIndex != 8 || req.Namespace != "team" || req.Path != "nomad/jobs/j" {
		t.Errorf("asked %+v", req)
	}

	answer, err = s.Lookup(t.Context(), ParseVariables("team", "nomad/jobs"), 0, time.Second)
	if err != nil || len(answer.Value.([]*VariableMeta)) != 1 {
		t.Errorf("got %+v, %v", answer, err)
	}
	if strings.Contains(q.String(), `"1`) || VariableItems(nil).Metadata() != nil {
		t.Errorf("%s", q)
	}
}

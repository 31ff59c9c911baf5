package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/api"
	accessapi "berth/api/access"
	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
)

// variableCalls has the requests to the routes of variables.
func variableCalls() map[string]routeCall {
	one := uint64(1)
	return map[string]routeCall{
		"GET /v1/vars": {
			path:    "/v1/vars?prefix=a",
			rpc:     "Variables.List",
			request: &access.VariableListRequest{QueryOptions: structs.QueryOptions{Prefix: "a"}},
		},
		"GET /v1/var/{path...}": {
			path:    "/v1/var/a/b",
			rpc:     "Variables.Read",
			request: &access.VariableGetRequest{Path: "a/b"},
		},
		"PUT /v1/var/{path...}": {
			path: "/v1/var/a/b?cas=1&lock-acquire",
			body: `{"Path":"a/b","Namespace":"prod","Items":{"k":"v"},"Lock":{"TTL":"20s"}}`,
			rpc:  "Variables.Apply",
			request: &access.VariableApplyRequest{
				Op:           access.VariableAcquire,
				Path:         "a/b",
				Items:        access.VariableItems{"k": "v"},
				CheckIndex:   &one,
				Lock:         &access.VariableLock{TTL: 20 * time.Second},
				WriteOptions: structs.WriteOptions{Namespace: "prod"},
			},
		},
		"DELETE /v1/var/{path...}": {
			path: "/v1/var/a/b?cas=1&lock-id=x",
			rpc:  "Variables.Apply",
			request: &access.VariableApplyRequest{
				Op:         access.VariableDelete,
				Path:       "a/b",
				CheckIndex: &one,
				Lock:       &access.VariableLock{ID: "x"},
			},
		},
	}
}

// A conflict has the status 409 and the present variable, and so has a renewal without the lock.
func TestVariables_AnswerAConflictWithThePresentVariable(t *testing.T) {
	s := newServer(t)
	present := &access.OpenVariable{Items: access.VariableItems{"k": "v"}}
	present.Path = "a/b"
	present.ModifyIndex = 7
	present.Lock = &access.VariableLock{TTL: 15 * time.Second, LockDelay: 15 * time.Second}
	apitest.Answer(s.caller, access.VariableApply, access.VariableApplyResponse{Conflict: present})
	apitest.Answer(s.caller, access.VariableRenew, access.VariableRenewResponse{Conflict: present})
	client := api.NewClient(api.ClientConfig{Address: s.URL})
	defer client.Close()
	for _, op := range []string{
		access.VariableSet, access.VariableDelete, access.VariableAcquire, "lock-renew",
	} {
		_, err := accessapi.WriteVariable(t.Context(), client, accessapi.VariableWrite{
			Op:    op,
			Path:  "a/b",
			Items: access.VariableItems{"k": "w"},
			Lock:  &access.VariableLock{ID: "x"},
		})
		conflict, ok := err.(*accessapi.VariableConflict)
		if !ok || !structs.IsKind(err, structs.KindConflict) || conflict.Present.ModifyIndex != 7 ||
			conflict.Present.Items["k"] != "v" || conflict.Present.Lock.TTL != 15*time.Second {
			t.Errorf("%s: got %v", op, err)
		}
	}
	resp, answer := s.do(t, http.MethodPut, "/v1/var/a/b", `{"Items":{"k":"w"}}`)
	if resp.StatusCode != http.StatusConflict || !strings.Contains(answer, `"LockDelay":"15s"`) {
		t.Errorf("got %d %s", resp.StatusCode, answer)
	}
}

func TestVariables_RejectABodyOfAnotherPath(t *testing.T) {
	s := newServer(t)
	resp, answer := s.do(t, http.MethodPut, "/v1/var/a/b", `{"Path":"c","Items":{"k":"hunter2"}}`)
	if resp.StatusCode != http.StatusBadRequest || strings.Contains(answer, "hunter2") {
		t.Errorf("got %d %s", resp.StatusCode, answer)
	}
}

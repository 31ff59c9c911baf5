package rights_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/access"
)

// The answer to a write shows the items of a variable to a caller that may read it, and otherwise at most
// those that the request had.
func TestVariables_ShowItemsOnlyToReaders(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	items := access.VariableItems{"password": "hunter2"}
	path := "app/db"
	endpointstest.Must(s, access.VariableApply, &access.VariableApplyRequest{
		Op: access.VariableSet, Path: path, Items: items,
	})
	s.Guard()
	token := s.Token
	writer := token(`namespace "default" {
  variables {
    path "app/*" { capabilities = ["write", "destroy"] }
  }
}`)
	reader := token(`namespace "default" {
  variables {
    path "app/*" { capabilities = ["write", "destroy", "read"] }
  }
}`)
	never := uint64(1)
	as := func(secret string) structs.WriteOptions { return structs.WriteOptions{AuthToken: secret} }
	apply := func(secret string, req access.VariableApplyRequest) *access.VariableApplyResponse {
		req.Path = path
		req.WriteOptions = as(secret)
		return endpointstest.Must(s, access.VariableApply, &req)
	}

	for name, write := range map[string]func(secret string) *access.OpenVariable{
		"a write of another version": func(secret string) *access.OpenVariable {
			return apply(secret, access.VariableApplyRequest{
				Op: access.VariableSet, Items: access.VariableItems{"a": "b"}, CheckIndex: &never,
			}).Conflict
		},
		"a deletion of another version": func(secret string) *access.OpenVariable {
			return apply(secret, access.VariableApplyRequest{
				Op: access.VariableDelete, CheckIndex: &never,
			}).Conflict
		},
		"a lock": func(secret string) *access.OpenVariable {
			held := apply(secret, access.VariableApplyRequest{Op: access.VariableAcquire}).Variable
			apply(secret, access.VariableApplyRequest{Op: access.VariableRelease, Lock: held.Lock})
			return held
		},
		"a lock that is given back": func(secret string) *access.OpenVariable {
			held := apply(secret, access.VariableApplyRequest{Op: access.VariableAcquire}).Variable
			return apply(secret, access.VariableApplyRequest{
				Op: access.VariableRelease, Lock: held.Lock,
			}).Variable
		},
		"a renewal of another lock": func(secret string) *access.OpenVariable {
			return endpointstest.Must(s, access.VariableRenew, &access.VariableRenewRequest{
				Path: path, LockID: "x", WriteOptions: as(secret),
			}).Conflict
		},
	} {
		hidden := write(writer)
		if hidden == nil || hidden.Path != path || len(hidden.Items) != 0 {
			t.Errorf("%s by a writer: got %+v, want the variable without items", name, hidden)
		}
		shown := write(reader)
		if shown == nil || shown.Items["password"] != "hunter2" {
			t.Errorf("%s by a reader: got %+v, want the items", name, shown)
		}
	}

	own := apply(writer, access.VariableApplyRequest{Op: access.VariableSet, Items: items}).Variable
	if own == nil || own.Items["password"] != "hunter2" {
		t.Errorf("got %+v, want the items of the request", own)
	}
}

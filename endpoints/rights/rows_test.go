package rights_test

import (
	"fmt"
	"testing"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// The namespace of a row decides about a request with its ID, whatever namespace the request names.
func TestRows_AreOfTheirOwnNamespace(t *testing.T) {
	db := mvcc.Open(&schema.All)
	most := int64(3)
	err := db.Write(10, func(tx *mvcc.WriteTx) error {
		schema.Allocs.Put(tx, &structs.Allocation{Namespace: "theirs", ID: "a"})
		schema.Allocs.Put(tx, &structs.Allocation{Namespace: "ours", ID: "b"})
		schema.Evals.Put(tx, &structs.Evaluation{Namespace: "theirs", ID: "e"})
		schema.Deployments.Put(tx, &structs.Deployment{Namespace: "theirs", ID: "d"})
		schema.Jobs.Put(tx, &structs.Job{Namespace: "theirs", ID: "j", TaskGroups: []*structs.TaskGroup{{
			Name: "g", Scaling: &structs.ScalingPolicy{Max: &most},
		}}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	may := func(right rights.Right, req any, namespaces ...string) bool {
		rules := ""
		for _, ns := range namespaces {
			rules += "namespace \"" + ns + "\" {\n  policy = \"write\"\n}\n"
		}
		p, err := acl.Parse("p", rules)
		if err != nil {
			t.Fatal(err)
		}
		return right.Allows(rights.Question{Caller: rights.Caller{ACL: acl.New(p)}, Tx: db.Read(), Req: req})
	}

	read := structs.QueryOptions{Namespace: "ours"}
	write := structs.WriteOptions{Namespace: "ours"}
	policy := structs.ScalingPolicyID("theirs", "j", "g")
	for name, c := range map[string]struct {
		right rights.Right
		req   any
	}{
		"get an allocation": {rights.AllocRead, &structs.AllocGetRequest{AllocID: "a", QueryOptions: read}},
		"get allocations": {
			rights.AllocsRead, &structs.AllocsGetRequest{AllocIDs: []string{"b", "a"}, QueryOptions: read},
		},
		"stop an allocation": {rights.AllocStop, &structs.AllocStopRequest{AllocID: "a", WriteOptions: write}},
		"get an evaluation":  {rights.EvalRead, &structs.EvalGetRequest{EvalID: "e", QueryOptions: read}},
		"get a deployment": {
			rights.DeploymentRead, &structs.DeploymentGetRequest{DeploymentID: "d", QueryOptions: read},
		},
		"fail a deployment": {
			rights.DeploymentFail, &structs.DeploymentFailRequest{DeploymentID: "d", WriteOptions: write},
		},
		"pause a deployment": {
			rights.DeploymentPause, &structs.DeploymentPauseRequest{DeploymentID: "d", WriteOptions: write},
		},
		"promote a deployment": {
			rights.DeploymentPromote, &structs.DeploymentPromoteRequest{DeploymentID: "d", WriteOptions: write},
		},
		"set the health of a deployment": {
			rights.DeploymentHealth, &structs.DeploymentHealthRequest{DeploymentID: "d", WriteOptions: write},
		},
		"get a scaling policy": {
			rights.ScalingRead, &structs.ScalingPolicyGetRequest{ID: policy, QueryOptions: read},
		},
	} {
		if may(c.right, c.req, "ours") {
			t.Errorf("%s: the namespace of the request decides, want that of the row", name)
		}
		if !may(c.right, c.req, "ours", "theirs") {
			t.Errorf("%s: a caller with rights on the row is denied", name)
		}
	}
}

// To write a variable is no right to delete it.
func TestVariableApply_AsksForDestroyToDelete(t *testing.T) {
	for right, want := range map[string]map[string]bool{
		"write":   {access.VariableSet: true, access.VariableAcquire: true, access.VariableDelete: false},
		"destroy": {access.VariableSet: false, access.VariableAcquire: false, access.VariableDelete: true},
	} {
		rules := fmt.Sprintf("namespace %q {\n  variables {\n    path %q {\n      capabilities = [%q]\n    }\n  }\n}\n",
			"team", "a", right)
		for op, allowed := range want {
			req := &access.VariableApplyRequest{
				Op: op, Path: "a", WriteOptions: structs.WriteOptions{Namespace: "team"},
			}
			if got := rights.VariableApply.Allows(ask(t, rules, req)); got != allowed {
				t.Errorf("%s with %s: got %t, want %t", op, right, got, allowed)
			}
		}
	}
}

package access

import (
	"slices"
	"testing"

	"berth/fsm"
	"berth/structs"
	"berth/structs/access"
)

func ofNode(path string) *access.VariableGetRequest {
	return &access.VariableGetRequest{Path: path, NodeID: "n1", SecretID: "s"}
}

// A node reads the variables of the jobs that it runs, and no others.
func TestGet_GivesANodeTheVariablesOfItsJobs(t *testing.T) {
	w := newVariableWorld(t)
	mine := []string{"nomad/jobs", "nomad/jobs/web", "nomad/jobs/web/g", "nomad/jobs/web/g/t"}
	others := []string{"app", "nomad/jobs/other", "nomad/jobs/web/g/other", "nomad/volumes/default/v",
		"nomad/job-templates/web"}
	for _, path := range append(slices.Clone(mine), others...) {
		w.apply(set(path))
	}
	for _, path := range mine {
		_, err := w.get(ofNode(path))
		wantKind(t, err, structs.KindDenied)
	}

	w.addAlloc(&structs.Job{
		ID:         "web",
		Type:       structs.JobService,
		TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1, Tasks: []*structs.Task{{Name: "t", Driver: "exec"}}}},
	})
	for _, path := range mine {
		v, err := w.get(ofNode(path))
		if err != nil || v.Items["password"] != secret {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range others {
		_, err := w.get(ofNode(path))
		wantKind(t, err, structs.KindDenied)
	}
	elsewhere := ofNode("nomad/jobs/web")
	elsewhere.Namespace = "prod"
	_, err := w.get(elsewhere)
	wantKind(t, err, structs.KindDenied)

	all := &access.VariableListRequest{NodeID: "n1", SecretID: "s"}
	all.Namespace = structs.AllNamespaces
	if got := w.list(all); !slices.Equal(got, mine) {
		t.Errorf("the node lists %q", got)
	}

	must(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID: "n1",
		Allocs: []*structs.AllocClientUpdate{{ID: "a-web", ClientStatus: structs.AllocComplete}},
	})
	_, err = w.get(ofNode("nomad/jobs/web"))
	wantKind(t, err, structs.KindDenied)
}

// A certificate names the node, and the secret proves it: without one the request would be an operator's.
func TestGet_NeedsTheSecretOfANode(t *testing.T) {
	w := newVariableWorld(t)
	w.apply(set("a"))
	_, err := w.get(&access.VariableGetRequest{Path: "a", NodeID: "n1"})
	wantKind(t, err, structs.KindDenied)
	err = w.List(w.Store.Read(), &access.VariableListRequest{NodeID: "n1"}, &access.VariableListResponse{})
	wantKind(t, err, structs.KindDenied)
	_, err = w.get(&access.VariableGetRequest{Path: "a"})
	if err != nil {
		t.Error(err)
	}
	_, err = w.get(&access.VariableGetRequest{Path: "b"})
	wantKind(t, err, structs.KindNotFound)
}

package endpoints_test

import (
	"slices"
	"testing"

	"berth/structs"
)

// The rules of volumes decide about the claims in lists, as they do about the volumes.
func TestClaimLists_ShowClaimsOfReadableVolumes(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "z1")
	for _, id := range []string{"open", "sealed"} {
		s.AddVolume(id)
		s.AddAlloc("of-"+id, "n1")
		s.Claim(id, "of-"+id, "n1")
	}
	secret := guard(t, s)(`namespace "default" {
  policy = "read"
  volume "sealed" { policy = "deny" }
}
node { policy = "read" }`)

	for name, shown := range map[string]func(q structs.QueryOptions) []string{
		"volumes": func(q structs.QueryOptions) (ids []string) {
			for _, v := range must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{QueryOptions: q}).Volumes {
				ids = append(ids, v.ID)
			}
			return ids
		},
		"claims": func(q structs.QueryOptions) (ids []string) {
			for _, c := range must(s, structs.CSIClaimList, &structs.CSIClaimListRequest{QueryOptions: q}).Claims {
				ids = append(ids, c.VolumeID)
			}
			return ids
		},
		"claims of a node": func(q structs.QueryOptions) (ids []string) {
			req := &structs.CSIClaimListRequest{NodeID: "n1", QueryOptions: q}
			for _, c := range must(s, structs.CSIClaimList, req).Claims {
				ids = append(ids, c.VolumeID)
			}
			return ids
		},
		"claims with causes": func(q structs.QueryOptions) (ids []string) {
			req := &structs.VolumeClaimListRequest{QueryOptions: q}
			for _, c := range must(s, structs.VolumeClaimList, req).Claims {
				ids = append(ids, c.VolumeID)
			}
			return ids
		},
	} {
		for _, namespace := range []string{"default", "*"} {
			ids := shown(structs.QueryOptions{Namespace: namespace, AuthToken: secret})
			if !slices.Equal(ids, []string{"open"}) {
				t.Errorf("the %s of namespace %s: got those of %v, want of open alone", name, namespace, ids)
			}
		}
		if all := shown(structs.QueryOptions{}); len(all) != 2 {
			t.Errorf("the %s for a machine: got those of %v, want of both", name, all)
		}
	}
}

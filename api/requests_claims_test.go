package api_test

import "berth/structs"

// claimCalls has the requests to the routes of claims.
func claimCalls() map[string]routeCall {
	return map[string]routeCall{
		"DELETE /v1/volume/csi/{id}/claim": {
			rpc:  "VolumeClaim.Release",
			path: "/v1/volume/csi/a%2Fb/claim?alloc_id=x&dry_run=true&force=true&reason=burnt&by=me",
			request: &structs.VolumeClaimReleaseRequest{
				VolumeID: "a/b",
				AllocID:  "x",
				DryRun:   true,
				Force:    true,
				Reason:   "burnt",
				By:       "me",
			},
		},
		"DELETE /v1/volume/csi/{id}/claim/force": {
			rpc:  "VolumeClaim.Force",
			path: "/v1/volume/csi/a%2Fb/claim/force?alloc_id=x&reason=burnt&created=7&epoch=8&alloc=x",
			request: &structs.VolumeClaimReleaseRequest{
				VolumeID:     "a/b",
				AllocID:      "x",
				Reason:       "burnt",
				Shown:        &structs.DetachShown{Epoch: 8, Allocs: []string{"x"}},
				WriteOptions: structs.WriteOptions{Created: 7},
			},
		},
		"DELETE /v1/volumes/claim/{id}": {
			rpc:  "VolumeClaim.Release",
			path: "/v1/volumes/claim/x.a%2Fb?dry_run=true&reason=burnt&by=me",
			request: &structs.VolumeClaimReleaseRequest{
				VolumeID: "a/b",
				AllocID:  "x",
				DryRun:   true,
				Reason:   "burnt",
				By:       "me",
			},
		},
		"GET /v1/volumes/claims": {
			rpc:  "VolumeClaim.List",
			path: "/v1/volumes/claims?volume_id=v&node_id=n&alloc_id=x&namespace=default",
			request: &structs.VolumeClaimListRequest{
				VolumeID:     "v",
				NodeID:       "n",
				AllocID:      "x",
				QueryOptions: structs.QueryOptions{Namespace: "default"},
			},
		},
	}
}

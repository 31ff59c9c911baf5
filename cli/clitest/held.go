package clitest

import (
	"context"
	"testing"

	"berth/api/apitest"
	"berth/structs"
)

// HeldCluster serves a job whose allocation has a status, and whose claim of the volume is released after a
// number of reads.
func HeldCluster(t *testing.T, status string, reads int) (addr string) {
	t.Helper()
	meta := structs.QueryMeta{Index: 7, KnownLeader: true}
	c := &apitest.Caller{}
	alloc := &structs.Allocation{
		ID:            Alloc1,
		Name:          "db.g[0]",
		Namespace:     "default",
		JobID:         "db",
		TaskGroup:     "g",
		NodeID:        Node1,
		Job:           JobWithVolume(),
		DesiredStatus: structs.AllocDesiredStop,
		ClientStatus:  status,
	}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{
		Job:       JobWithVolume(),
		QueryMeta: meta,
	})
	apitest.Answer(c, structs.JobDeregister, structs.JobDeregisterResponse{})
	apitest.Answer(c, structs.AllocGet, structs.AllocGetResponse{Alloc: alloc, QueryMeta: meta})
	apitest.Answer(c, structs.JobAllocations,
		structs.AllocListResponse{
			Allocations: []*structs.AllocListStub{alloc.Stub()},
			QueryMeta:   meta,
		})
	apitest.Answer(c, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{
		QueryMeta: meta,
		Volume: &structs.CSIVolumeDetail{
			Attachments: []*structs.CSIAttachment{{
				NodeID:    Node1,
				State:     structs.AttachmentAttaching,
				LastError: &structs.OperationError{Code: "Internal", Message: "the array is full"},
			}},
		},
	})
	type request = structs.CSIClaimListRequest
	type response = structs.CSIClaimListResponse
	apitest.On(c, structs.CSIClaimList, func(_ context.Context, q *request) (*response, error) {
		resp := &response{QueryMeta: meta}
		if q.VolumeID == "gone" {
			return nil, structs.Errorf(structs.KindNotFound, "no volume gone")
		}
		switch q.Filter {
		case "": // all claims, also of a running job
			resp.Claims = []*structs.CSIClaim{{
				VolumeID: q.VolumeID,
				JobID:    "other",
				State:    structs.ClaimGranted,
			}}
		case `JobID == "db" and State == "granted"`:
		default:
			return nil, structs.Errorf(structs.KindInvalid, "unexpected filter %s", q.Filter)
		}
		if q.VolumeID != "data" {
			return resp, nil
		}
		if reads > 0 {
			reads--
			resp.Claims = append(resp.Claims, &structs.CSIClaim{
				VolumeID:     "data",
				AllocID:      Alloc1,
				JobID:        "db",
				State:        structs.ClaimGranted,
				ReleaseError: &structs.OperationError{Code: "Internal", Message: "target is busy"},
			})
		}
		return resp, nil
	})
	return Serve(t, c, NewAgent(t.TempDir()))
}

// JobWithVolume is a job of one allocation that uses the volume data.
func JobWithVolume() *structs.Job {
	group := &structs.TaskGroup{
		Name:  "g",
		Count: 1,
		Volumes: map[string]*structs.VolumeRequest{
			"d": {
				Name:       "d",
				Type:       "csi",
				Source:     "data",
				AccessMode: structs.CSISingleNodeWriter,
			},
		},
	}
	return &structs.Job{
		ID:         "db",
		Namespace:  "default",
		Type:       structs.JobService,
		TaskGroups: []*structs.TaskGroup{group},
	}
}

package csi

import (
	"context"

	"berth/endpoints/core"
	"berth/endpoints/rights"
	"berth/state"
	"berth/structs"
)

// HostVolume is a request to create a dynamic host volume.
type HostVolume struct {
	// Name is the name of the volume, for messages and the order of requests.
	Name string
	// Choose returns the row of the volume on the node that it chooses.
	Choose func(tx *state.ReadTx) (*structs.CSIVolume, error)
	// Detach is true if the request ends once the row is recorded.
	Detach bool
	structs.WriteOptions
}

// CreateHost records a dynamic host volume like Create, and waits until it is settled. Requests for one name
// choose their nodes one after the other, because a node has one volume of a name.
func (w VolumeWrites) CreateHost(
	ctx context.Context, req *HostVolume, resp *structs.CSIVolumeRegisterResponse,
) (uint64, error) {
	given, index, err := w.recordHost(ctx, req, resp)
	if err != nil {
		return 0, err
	}
	if req.Detach {
		resp.Volumes = given.Volumes
		return index, nil
	}
	settled, err := w.awaitRows(ctx, given, resp)
	return max(index, settled), err
}

func (w VolumeWrites) recordHost(
	ctx context.Context, req *HostVolume, resp *structs.CSIVolumeRegisterResponse,
) (given *structs.CSIVolumeRegisterRequest, index uint64, err error) {
	// No volume has this ID: a name has no line break.
	unlock, err := core.AwaitTurn(ctx, w.locks, "host\n"+req.RequestNamespace()+"/"+req.Name)
	if err != nil {
		return nil, 0, err
	}
	defer unlock()

	v, err := req.Choose(w.Store.Read())
	if err != nil {
		return nil, 0, err
	}
	given, err = w.checkedCopy(&structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: req.WriteOptions,
	}, true)
	if err != nil {
		return nil, 0, err
	}
	given.Volumes[0].Host = v.Host // a request of a person has none
	index, err = w.recordRows(ctx, given, resp, rowToCreate)
	return given, index, err
}

// rightOf returns the right to record the volumes of a checked request.
func rightOf(given *structs.CSIVolumeRegisterRequest) rights.Right {
	for _, v := range given.Volumes {
		if v.Host != nil {
			return rights.HostVolumeCreate
		}
	}
	return rights.VolumeWrite
}

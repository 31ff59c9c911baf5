package main

import (
	"encoding/json"
	"os"
	"sync"

	"berth/bench/peer/shape"
	"github.com/hashicorp/nomad/nomad/structs"
)

// qo are the options of a read.
var qo = structs.QueryOptions{Region: region, Namespace: shape.NS}

type allocRef struct{ ID, NodeID string }

func loadAllocs() []allocRef {
	b, err := os.ReadFile(*allocFile)
	check(err)
	var a []allocRef
	check(json.Unmarshal(b, &a))
	return a
}

func register(c *client, nd *structs.Node) error {
	req := &structs.NodeRegisterRequest{
		Node:         nd,
		WriteRequest: structs.WriteRequest{Region: region},
	}
	return c.r.Call("Node.Register", req, &idxReply{})
}

func claimReq(v string, a allocRef, mode structs.CSIVolumeClaimMode) *structs.CSIVolumeClaimRequest {
	am := structs.CSIVolumeAccessModeMultiNodeReader
	if mode == structs.CSIVolumeClaimWrite {
		am = structs.CSIVolumeAccessModeSingleNodeWriter
	}
	wr := structs.WriteRequest{Region: region, Namespace: shape.NS}
	if *auth {
		wr.AuthToken = secrets()[a.NodeID]
	}
	return &structs.CSIVolumeClaimRequest{
		VolumeID:       v,
		AllocationID:   a.ID,
		NodeID:         a.NodeID,
		Claim:          mode,
		AccessMode:     am,
		AttachmentMode: structs.CSIVolumeAttachmentModeFilesystem,
		State:          structs.CSIVolumeClaimStateTaken,
		WriteRequest:   wr,
	}
}

var secrets = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for i := 0; i < 20000; i++ {
		m[shape.NodeID(i)] = shape.UUID("secret", i)
	}
	return m
})

func unpubReq(v string, a allocRef, mode structs.CSIVolumeClaimMode) *structs.CSIVolumeUnpublishRequest {
	r := claimReq(v, a, mode)
	r.State = structs.CSIVolumeClaimStateNodeDetached
	return &structs.CSIVolumeUnpublishRequest{
		VolumeID:     v,
		Claim:        r.ToClaim(),
		WriteRequest: r.WriteRequest,
	}
}

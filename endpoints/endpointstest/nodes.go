package endpointstest

import (
	"bytes"
	"time"

	"github.com/stretchr/testify/require"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/structs"
	"berth/structs/cluster"
)

// SecretOf returns the secret of a node.
func SecretOf(node string) string { return node + "-secret" }

// AddNode registers a ready node that runs both halves of the plugin "pl" in the zone.
func (s *Server) AddNode(id, zone string) *FakeNode {
	s.T.Helper()
	topology := &structs.CSITopology{Segments: map[string]string{"zone": zone}}
	Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       id,
			SecretID: SecretOf(id),
			Name:     "name-" + id,
			Status:   structs.NodeReady,
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 4000},
				Memory: structs.NodeMemoryResources{MemoryMB: 4000},
				Disk:   structs.NodeDiskResources{DiskMB: 40000},
			},
		},
		CSI: []*structs.CSIPluginInstance{
			{
				Kind:   structs.CSIKindController,
				NodeID: id,
				CSIInfo: structs.CSIInfo{
					PluginID:                 "pl",
					Provider:                 "pl.csi",
					Healthy:                  true,
					RequiresControllerPlugin: true,
					ControllerInfo: &structs.CSIControllerInfo{
						SupportsCreateDelete: true,
						SupportsAttachDetach: true,
						SupportsListVolumes:  true,
						SupportsExpand:       true,
						SupportsModify:       true,
					},
				},
			},
			{
				Kind:   structs.CSIKindNode,
				NodeID: id,
				CSIInfo: structs.CSIInfo{
					PluginID:                 "pl",
					Provider:                 "pl.csi",
					Healthy:                  true,
					RequiresControllerPlugin: true,
					NodeInfo:                 &structs.CSINodeInfo{ID: "ext-" + id, AccessibleTopology: topology},
				},
			},
		},
	})
	n := &FakeNode{Ended: make(chan struct{})}
	s.Nodes.Bind(id, n)
	return n
}

// Registration returns a new registration of a node with both halves of the plugin "pl".
func Registration(id string) *structs.NodeRegisterRequest {
	info := structs.CSIInfo{
		PluginID:                 "pl",
		Healthy:                  true,
		RequiresControllerPlugin: true,
		UpdateTime:               time.Now().UnixNano(),
	}
	node := &structs.CSIPluginInstance{
		Kind:    structs.CSIKindNode,
		NodeID:  id,
		CSIInfo: info,
	}
	node.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id, MaxVolumes: 10}
	controller := &structs.CSIPluginInstance{
		Kind:    structs.CSIKindController,
		NodeID:  id,
		CSIInfo: info,
	}
	controller.ControllerInfo = &structs.CSIControllerInfo{SupportsCreateDelete: true}
	return &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:         id,
			SecretID:   SecretOf(id),
			Name:       "name-" + id,
			Status:     structs.NodeReady,
			Attributes: map[string]string{"kernel.name": "linux", "unique.hostname": id},
			Meta:       map[string]string{"rack": "1"},
			Drivers: map[string]*structs.DriverInfo{
				"exec": {
					Detected:   true,
					Healthy:    true,
					UpdateTime: time.Now(),
				},
			},
			NodeResources: &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 4000}},
		},
		CSI: []*structs.CSIPluginInstance{controller, node},
	}
}

// SetNodeDown records that a node is down.
func (s *Server) SetNodeDown(node string) {
	MustPropose(s, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{node},
		Status:       structs.NodeDown,
		WriteOptions: structs.WriteOptions{Now: s.Clock.UnixNano()},
	})
}

// AddNamespace defines a namespace.
func (s *Server) AddNamespace(name string) {
	s.T.Helper()
	Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: name},
	})
}

// AddRootKey gives the server a root key.
func (s *Server) AddRootKey(id string) {
	s.T.Helper()
	MustPropose(s, fsm.RootKeyAdd, &cluster.RootKeyAddRequest{
		KeyID:   id,
		Wrapped: []byte("wrapped"),
		KEK:     "kek",
		Digest:  []byte(id),
	})
	require.NoError(s.T, s.Keys.Add(id, bytes.Repeat([]byte{byte(len(id))}, keyring.KeySize)))
	require.NoError(s.T, s.Keys.Use(id))
}

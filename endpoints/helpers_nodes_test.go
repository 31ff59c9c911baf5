package endpoints

import (
	"bytes"
	"time"

	"github.com/stretchr/testify/require"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/structs"
)

func secretOf(node string) string { return node + "-secret" }

// addNode registers a ready node that runs both halves of the plugin "pl" in the zone.
func (s *server) addNode(id, zone string) *fakeNode {
	s.t.Helper()
	topology := &structs.CSITopology{Segments: map[string]string{"zone": zone}}
	must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       id,
			SecretID: secretOf(id),
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
	n := &fakeNode{done: make(chan struct{})}
	s.Nodes.Bind(id, n)
	return n
}

// testRegistration returns a new registration of a node with both halves of the plugin "pl".
func testRegistration(id string) *structs.NodeRegisterRequest {
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
			SecretID:   secretOf(id),
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

func (s *server) setNodeDown(node string) {
	mustPropose(s, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{node}, Status: structs.NodeDown})
}

func (s *server) addNamespace(name string) {
	s.t.Helper()
	must(s, structs.NamespaceApply, &structs.NamespaceApplyRequest{
		Definition: &structs.Namespace{Name: name},
	})
}

// addRootKey gives the server a root key.
func (s *server) addRootKey(id string) {
	s.t.Helper()
	mustPropose(s, fsm.RootKeyAdd, &structs.RootKeyAddRequest{
		KeyID:   id,
		Wrapped: []byte("wrapped"),
		KEK:     "kek",
		Digest:  []byte(id),
	})
	require.NoError(s.t, s.Keys.Add(id, bytes.Repeat([]byte{byte(len(id))}, keyring.KeySize)))
	require.NoError(s.t, s.Keys.Use(id))
}

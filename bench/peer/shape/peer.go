package shape

import (
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/nomad"
	"github.com/hashicorp/nomad/nomad/state"
	"github.com/hashicorp/nomad/nomad/structs"
)

// PeerVersion is the version in go.mod.
const PeerVersion = "v1.6.1"

func resources() *structs.NodeResources {
	return &structs.NodeResources{
		Cpu:    structs.NodeCpuResources{CpuShares: 4000000},
		Memory: structs.NodeMemoryResources{MemoryMB: 8 << 20},
		Disk:   structs.NodeDiskResources{DiskMB: 100 << 20},
		Networks: structs.Networks{{
			Mode:   "host",
			Device: "eth0",
			CIDR:   "10.0.0.1/32",
			IP:     "10.0.0.1",
			MBits:  1000,
		}},
	}
}

func NewState(publisher bool) *state.StateStore {
	s, err := state.NewStateStore(&state.StateStoreConfig{
		Logger:          hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Error}),
		Region:          "global",
		EnablePublisher: publisher,
		EventBufferSize: 100,
	})
	if err != nil {
		panic(err)
	}
	return s
}

func DoClaim(s *state.StateStore, index uint64, ns, id string, c *structs.CSIVolumeClaim) error {
	return s.CSIVolumeClaim(index, ns, id, c)
}

func NewFSM(publisher bool) FSM {
	log := hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Error})
	eb, err := nomad.NewEvalBroker(time.Minute, time.Second, time.Second, 3)
	if err != nil {
		panic(err)
	}
	f, err := nomad.NewFSM(&nomad.FSMConfig{
		EvalBroker:        eb,
		Periodic:          nomad.NewPeriodicDispatch(log, nil),
		Blocked:           nomad.NewBlockedEvals(eb, log),
		Logger:            log,
		Region:            "global",
		EnableEventBroker: publisher,
		EventBufferSize:   100,
	})
	if err != nil {
		panic(err)
	}
	return f
}

func DoNodeStatus(s *state.StateStore, index uint64, id, status string) error {
	return s.UpdateNodeStatus(structs.NodeUpdateStatusRequestType, index, id, status, 1, nil)
}

package node_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// reportingNode is a node with a driver, a device and a plugin, and its servers.
type reportingNode struct {
	*endpointstest.Server
	report *structs.NodeRegisterRequest
	seen   uint64
}

// register registers the node again, as a restarted agent does.
func (n *reportingNode) register() {
	endpointstest.Must(n.Server, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: n.report.Node.Copy(),
		CSI:  n.instances(),
	})
}

func (n *reportingNode) instances() (all []*structs.CSIPluginInstance) {
	for _, i := range n.report.CSI {
		c := *i
		all = append(all, &c)
	}
	return all
}

// updatePlugins reports all plugins without the node.
func (n *reportingNode) updatePlugins() {
	endpointstest.Must(n.Server, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Upserts:  n.instances(),
		Full:     true,
	})
}

func (n *reportingNode) setDown() {
	endpointstest.MustPropose(n.Server, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs: []string{"n1"},
		Status:  structs.NodeDown,
	})
}

// news returns the events since the last call, without those of the cluster.
func (n *reportingNode) news() string {
	var messages []string
	for _, e := range state.Node(n.Store.Read(), "n1").Events {
		if e.CreateIndex > n.seen && e.Subsystem != "Cluster" {
			messages = append(messages, e.Message)
		}
	}
	n.seen = n.Store.Index()
	return strings.Join(messages, "\n")
}

// faultOf returns a change of the health of a part: "" is healthy.
func faultOf(healthy *bool, description *string) func(fault string) (set func()) {
	return func(fault string) func() {
		return func() {
			*healthy = fault == ""
			*description = fault
		}
	}
}

// TestNodeEvents_AreWrittenOnceOverRestarts leads a node through changes and through restarts of its agent.
func TestNodeEvents_AreWrittenOnceOverRestarts(t *testing.T) {
	n := &reportingNode{Server: endpointstest.New(t), report: endpointstest.Registration("n1")}
	n.report.CSI = n.report.CSI[1:]
	n.report.CSI[0].AllocID = "alloc1"
	device := &structs.NodeDevice{ID: "0", Healthy: true}
	n.report.Node.NodeResources.Devices = []*structs.NodeDeviceResource{{
		Vendor: "acme", Type: "gpu", Name: "x1",
		Instances: []*structs.NodeDevice{device},
	}}
	driver := n.report.Node.Drivers["exec"]
	plugin := n.report.CSI[0]
	setDriver := faultOf(&driver.Healthy, &driver.HealthDescription)
	setDevice := faultOf(&device.Healthy, &device.HealthDescription)
	setPlugin := faultOf(&plugin.Healthy, &plugin.HealthDescription)
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"a new node", func() {}, ""},
		{"a restart", func() {}, ""},
		{"a restart after the node was down", n.setDown, ""},
		{"a broken driver", setDriver("no cgroups"), "driver exec is unhealthy: no cgroups"},
		{"another reason", setDriver("no seccomp"), ""},
		{"a restart with the broken driver", n.setDown, ""},
		{"a mended driver", setDriver(""), "driver exec is healthy"},
		{"a broken device", setDevice("too hot"), "device 0 of acme/gpu/x1 is unhealthy: too hot"},
		{"a restart with the broken device", n.setDown, ""},
		{"a mended device", setDevice(""), "device 0 of acme/gpu/x1 is healthy"},
		{"a broken plugin", setPlugin("no answer"), "plugin pl (node) is unhealthy: no answer"},
		{"a restart with the broken plugin", n.setDown, ""},
		{"a mended plugin", setPlugin(""), "plugin pl (node) is healthy"},
		{
			"another allocation of the plugin", func() { plugin.AllocID = "alloc2" },
			"plugin pl (node) is replaced: allocation alloc2 runs it instead of alloc1",
		},
		{
			"a restart that finds the plugin broken",
			func() {
				n.setDown()
				setPlugin("no answer")()
			},
			"plugin pl (node) is unhealthy: no answer",
		},
		{"no plugin", func() { n.report.CSI = nil }, ""},
		{
			"the plugin again",
			func() {
				n.report.CSI = []*structs.CSIPluginInstance{plugin}
				setPlugin("")()
			},
			"plugin pl (node) is healthy",
		},
	} {
		step.do()
		n.register()
		if got := n.news(); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
		n.register()
		n.updatePlugins()
		if got := n.news(); got != "" {
			t.Errorf("%s: repeated reports wrote %q", step.name, got)
		}
	}
	n.report.CSI = nil
	n.updatePlugins()
	n.register()
	if got, want := n.news(), "plugin pl (node) is gone"; got != want {
		t.Errorf("an update of the plugins: got %q, want %q", got, want)
	}
}

// TestNodeEvents_OfARepeatedReportAreWrittenOnce: the node repeats its report while the first one is on its
// way through the log.
func TestNodeEvents_OfARepeatedReportAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &reportingNode{Server: endpointstest.New(t), report: endpointstest.Registration("n1")}
		n.register()
		n.news()
		n.report.Node.Drivers["exec"].Healthy = false
		release := make(chan struct{})
		n.Raft.Do(func() { n.Raft.Hold = release })
		var both sync.WaitGroup
		for range 2 {
			both.Go(n.register)
			synctest.Wait()
		}
		n.Raft.Do(func() { n.Raft.Hold = nil })
		close(release)
		both.Wait()
		if got := n.news(); got != "driver exec is unhealthy" {
			t.Errorf("got %q, want one event", got)
		}
	})
}

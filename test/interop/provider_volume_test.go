package interop

import (
	"os"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// volumeOfProvider is what the public provider of OpenTofu sends for a volume with a capacity: the modes of
// the first capability twice, and mount options without a value.
func volumeOfProvider(plugin, id string, capacity int64) *public.CSIVolume {
	modes := &public.CSIVolumeCapability{
		AccessMode:     public.CSIVolumeAccessModeSingleNodeWriter,
		AttachmentMode: public.CSIVolumeAttachmentModeFilesystem,
	}
	return &public.CSIVolume{
		ID:                    id,
		Name:                  id,
		PluginID:              plugin,
		RequestedCapacityMin:  capacity,
		RequestedCapacityMax:  8 << 20,
		RequestedCapabilities: []*public.CSIVolumeCapability{modes},
		AccessMode:            modes.AccessMode,
		AttachmentMode:        modes.AttachmentMode,
		MountOptions:          &public.CSIMountOptions{},
		Parameters:            map[string]string{},
		Secrets:               public.CSISecrets{},
	}
}

// TestClient_ManagesAVolumeLikeTheProvider makes the calls of the public provider of OpenTofu about a volume
// in a namespace: those of its resources nomad_csi_volume and nomad_csi_volume_registration, of their import,
// and of its data sources nomad_plugin and nomad_volumes. The provider updates a volume by a second creation.
func TestClient_ManagesAVolumeLikeTheProvider(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	awaitReadyNode(t, c)
	plugin := runPlugin(t, c)
	_, err := c.Namespaces().Register(&public.Namespace{Name: "team"}, nil)
	checkNoError(t, "registering the namespace", err)
	write := &public.WriteOptions{Namespace: "team"}
	query := &public.QueryOptions{Namespace: "team"}
	const id = "of-the-provider"
	read := func(capacity int64) *public.CSIVolume {
		t.Helper()
		v, _, err := c.CSIVolumes().Info(id, query)
		if err != nil {
			t.Fatal(err)
		}
		if v.Namespace != "team" || v.PluginID != plugin || v.ExternalID == "" || v.Provider == "" ||
			v.RequestedCapacityMin != capacity || v.RequestedCapacityMax != 8<<20 || v.Capacity < capacity ||
			!v.Schedulable || v.NodesHealthy != v.NodesExpected || len(v.RequestedCapabilities) != 1 ||
			v.RequestedCapabilities[0].AccessMode != public.CSIVolumeAccessModeSingleNodeWriter {
			t.Errorf("the provider reads %+v", v)
		}
		return v
	}
	for _, capacity := range []int64{1 << 20, 2 << 20} {
		_, _, err := c.CSIVolumes().Create(volumeOfProvider(plugin, id, capacity), write)
		checkNoError(t, "creating the volume", err)
		read(capacity)
	}
	checkListsOfProvider(t, c, plugin, id)

	external := read(2 << 20).ExternalID
	err = c.CSIVolumes().Deregister(id, true, write)
	checkNoError(t, "deregistering the volume", err)
	checkNoVolume(t, c, id, query)
	registered := volumeOfProvider(plugin, id, 2<<20)
	registered.ExternalID = external
	_, err = c.CSIVolumes().Register(registered, write)
	checkNoError(t, "registering the volume", err)
	if v, _, err := c.CSIVolumes().Info(id, query); err != nil || v.ExternalID != external || !v.Schedulable {
		t.Errorf("after its registration the volume is %+v, %v", v, err)
	}
	checkNoError(t, "deleting the volume", c.CSIVolumes().Delete(id, write))
	checkNoVolume(t, c, id, query)
}

// examplePlugin returns the job of the plugin of the examples, and the ID of the plugin.
func examplePlugin(t *testing.T, c *public.Client) (job *public.Job, id string) {
	t.Helper()
	src, err := os.ReadFile("../../examples/hostpath.hcl")
	if err != nil {
		t.Fatalf("the example of the plugin's job: %v", err)
	}
	job, err = c.Jobs().ParseHCL(string(src), true)
	if err != nil {
		t.Fatalf("parsing the example of the plugin's job: %v", err)
	}
	return job, job.TaskGroups[0].Tasks[0].CSIPluginConfig.ID
}

// runPlugin runs the plugin of the examples, and returns its ID as soon as all its instances are healthy.
func runPlugin(t *testing.T, c *public.Client) string {
	t.Helper()
	job, id := examplePlugin(t, c)
	runJob(t, c, job)
	awaitAnswer(t, "a healthy plugin", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		p, meta, err := c.CSIPlugins().Info(id, q)
		if err != nil {
			return false, nil, err
		}
		return p.NodesHealthy > 0 && p.NodesHealthy == p.NodesExpected &&
			p.ControllersHealthy == p.ControllersExpected && p.Provider != "" && p.Version != "", meta, nil
	})
	return id
}

// checkListsOfProvider checks the lists of a plugin's volumes.
func checkListsOfProvider(t *testing.T, c *public.Client, plugin, id string) {
	t.Helper()
	for _, want := range []struct {
		namespace, plugin string
		count             int
	}{{"team", plugin, 1}, {"default", plugin, 0}, {"team", "another", 0}} {
		list, _, err := c.CSIVolumes().List(&public.QueryOptions{
			Namespace: want.namespace,
			Params:    map[string]string{"plugin_id": want.plugin},
		})
		if err != nil || len(list) != want.count {
			t.Errorf("namespace %s has %d volumes of %s, %v", want.namespace, len(list), want.plugin, err)
		}
		for _, v := range list {
			if v.ID != id || v.ExternalID == "" || !v.Schedulable || v.PluginID != plugin {
				t.Errorf("the list has %+v", v)
			}
		}
	}
}

// checkNoVolume checks that a volume is unknown, by which the provider learns that it is gone.
func checkNoVolume(t *testing.T, c *public.Client, id string, query *public.QueryOptions) {
	t.Helper()
	_, _, err := c.CSIVolumes().Info(id, query)
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("reading the volume %s: %v", id, err)
	}
}

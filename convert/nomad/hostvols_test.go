package nomad

import (
	"strings"
	"testing"

	"berth/convert/report"
	"berth/jobspec"
	"berth/structs/validate"
)

// TestMigrate_WritesDynamicHostVolumes as files that create new ones, with the place of their data.
func TestMigrate_WritesDynamicHostVolumes(t *testing.T) {
	t.Parallel()
	items, dir := mustMigrate(t, fake{
		"/v1/jobs": `[]`,
		"/v1/volumes?type=host": `[{"ID": "h1", "Namespace": "team"}, {"ID": "h2", "Namespace": "team"},
 {"ID": "h3", "Namespace": "team"}]`,
		"/v1/volume/host/h1": `{"ID": "h1", "Name": "data", "PluginID": "mkdir", "NodeID": "n-7",
 "NodePool": "fast", "HostPath": "/srv/volumes/h1",
 "RequestedCapacityMinBytes": 10485760, "CapacityBytes": 10485760, "State": "ready",
 "RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}],
 "Constraints": [{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="},
  {"LTarget": "${attr.nomad.version}", "RTarget": "2", "Operand": "="}], "Parameters": {"uid": "7"}}`,
		"/v1/volume/host/h2": `{"ID": "h2", "Name": "disk", "PluginID": "mkfs", "Parameters": {"a": "geheim"},
 "RequestedCapabilities": [{"AccessMode": "single-node-writer"}]}`,
		"/v1/volume/host/h3": `{"ID": "h3", "Name": "odd"}`,
	}, false)

	for name, want := range map[string]struct {
		outcome report.Outcome
		notes   []string
	}{
		"data": {report.Warnings, []string{"the node n-7, in /srv/volumes/h1", "on ${attr.nomad.version}"}},
		"disk": {report.Warnings, []string{"its plugin mkfs is not one of berth"}},
		"odd":  {report.Not, []string{"a capability block is required"}},
	} {
		item := items[name]
		if item == nil || item.Outcome != want.outcome {
			t.Fatalf("%s: got %+v, want %s", name, item, want.outcome)
		}
		for _, note := range want.notes {
			if !strings.Contains(strings.Join(item.Notes, "\n"), note) {
				t.Errorf("%s: the notes are %q, want %q among them", name, item.Notes, note)
			}
		}
		if item.Outcome == report.Not {
			continue
		}
		text := readFile(t, dir, item.File)
		file, err := jobspec.ReadHostVolume(item.File, []byte(text))
		if err != nil || strings.Contains(text, "geheim") {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		v := file.Content
		v.Canonicalize()
		err = validate.HostVolume(v)
		if err != nil || v.Name != name || v.Namespace != "team" || v.ID+v.NodeID != "" {
			t.Errorf("%s: %v; the volume is %+v", name, err, v)
		}
	}

	file, err := jobspec.ReadHostVolume("h1.hcl", []byte(readFile(t, dir, "volumes/team/h1.hcl")))
	if err != nil {
		t.Fatal(err)
	}
	v := file.Content
	if v.NodePool != "fast" || v.RequestedCapacityMinBytes != 10<<20 || v.Parameters["uid"] != "7" ||
		len(v.Constraints) != 1 || v.Constraints[0].LTarget != "${attr.kernel.name}" {
		t.Errorf("the volume is %+v with the constraints %+v", v, v.Constraints)
	}
}

// TestMigrate_OfAVersionWithoutHostVolumes: the list of them has no content.
func TestMigrate_OfAVersionWithoutHostVolumes(t *testing.T) {
	t.Parallel()
	items, _ := mustMigrate(t, fake{"/v1/jobs": `[]`, "/v1/volumes": `[]`, "/v1/volumes?type=host": ""}, false)
	if len(items) > 0 {
		t.Errorf("the items are %v", items)
	}
}

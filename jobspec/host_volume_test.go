package jobspec

import (
	"os"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/validate"
)

// The example of the page is a volume, and is told apart from the file of another one.
func TestReadHostVolume_ReadsTheExampleOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/storage/host-volumes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```hcl\n")
	example, _, _ := strings.Cut(rest, "```")
	if !IsHostVolume("v.hcl", []byte(example)) {
		t.Error("the example is no host volume")
	}
	f, err := ReadHostVolume("v.hcl", []byte(example))
	if err != nil {
		t.Fatal(err)
	}

	v := f.Content
	v.Canonicalize()
	err = validate.HostVolume(v)
	if err != nil {
		t.Error(err)
	}
	if v.Name != "data" || v.RequestedCapacityMinBytes != 10<<20 || v.Parameters["type"] != "image" ||
		v.RequestedCapabilities[0].AccessMode != structs.CSISingleNodeWriter {
		t.Errorf("got %+v", v)
	}
	want := structs.Constraint{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}
	if *v.Constraints[0] != want {
		t.Errorf("got constraint %+v, want %+v", *v.Constraints[0], want)
	}
}

func TestIsHostVolume_OfTheTypeAlone(t *testing.T) {
	for src, want := range map[string]bool{
		`type = "host"`:                true,
		`type = "csi"`:                 false,
		`id = "host"`:                  false,
		`type = host`:                  false,
		`type = `:                      false,
		`capability { type = "host" }`: false,
	} {
		if got := IsHostVolume("v.hcl", []byte(src)); got != want {
			t.Errorf("%s: got %t, want %t", src, got, want)
		}
	}
	if !IsHostVolume("v.json", []byte(`{"type": "host", "name": "data"}`)) {
		t.Error("a file in JSON is none")
	}
}

// An index is not cut off, which would leave the constraint of another attribute.
func TestReadHostVolume_DropsNoIndexOfAnAttribute(t *testing.T) {
	f, err := ReadHostVolume("v.hcl", []byte(`
type = "host"
name = "v"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
constraint {
  attribute = "${attr.disk["a"]}"
  value     = "ssd"
}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Content.Constraints[0].LTarget; got != "" {
		t.Errorf("the attribute is %q", got)
	}
	f.Content.Canonicalize()
	err = validate.HostVolume(f.Content)
	if err == nil {
		t.Error("the constraint without an attribute is accepted")
	}
}

package conf

import (
	"reflect"
	"strings"
	"testing"
)

type withPlaceholders struct {
	Plug    string            `hcl:"plug,placeholders"`
	List    []string          `hcl:"list,placeholders"`
	Options map[string]string `hcl:"options,placeholders"`
	Plain   string            `hcl:"plain"`
}

func TestPlaceholders_StayInTheirTexts(t *testing.T) {
	want := withPlaceholders{
		Plug:    "${meta.plug}",
		List:    []string{"vm-${node.unique.name}.${attr.unique.platform.aws.instance-id}"},
		Options: map[string]string{"ip": `${meta["bmc"]}`, "n": "4", "${meta.a}": "b"},
	}
	head := "plug = \"${meta.plug}\"\nlist = [\"vm-${ node.unique.name }.${attr.unique.platform.aws.instance-id}\"]\n"
	for name, src := range map[string]string{
		"a.hcl": head + "options = { ip = \"${meta[\"bmc\"]}\", n = 4, \"${meta.a}\" = \"b\" }\n",
		"b.hcl": head + "options {\n  ip = \"${meta[\"bmc\"]}\"\n  n  = 4\n  \"${meta.a}\" = \"b\"\n}\n",
		"c.json": `{"plug": "${meta.plug}", "list": ["vm-${node.unique.name}.${attr.unique.platform.aws.instance-id}"],
			"options": {"ip": "${meta[\"bmc\"]}", "n": "4", "${meta.a}": "b"}}`,
	} {
		var got withPlaceholders
		err := Decode(name, []byte(src), &got, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestPlaceholders_AreNamesAlone(t *testing.T) {
	for src, want := range map[string]string{
		`plain = "${meta.plug}"`:       "variables not allowed",
		`plug = meta.plug`:             "variables not allowed",
		`plug = "${upper(meta.plug)}"`: "calls not allowed",
	} {
		err := Decode("a.hcl", []byte(src), &withPlaceholders{}, nil)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

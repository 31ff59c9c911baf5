package jobspec

import (
	"strings"
	"testing"

	"berth/structs/validate"
)

// TestReadVolume_KeepsThePartsWithoutFaults reads volume files with faults. The volumes in them have further
// faults, and those that may be due to a fault of the file are left out.
func TestReadVolume_KeepsThePartsWithoutFaults(t *testing.T) {
	const (
		head       = "id = \"v\"\nplugin_id = \"p\"\n"
		mode       = "access_mode = \"single-node-writer\"\n"
		capability = "capability {\n" + mode + "attachment_mode = \"file-system\"\n}\n"
		device     = "capability {\n" + mode + "attachment_mode = \"block-device\"\n}\n"
	)
	for name, c := range map[string]struct {
		src  string
		want []string
	}{
		"another argument": {
			head + "capacity_min = \"lots\"\nsnapshot_id = \"s\"\nclone_id = \"c\"\n" + capability,
			[]string{`v.hcl:3,16: invalid value for "capacity_min"`, `snapshot_id and clone_id exclude`},
		},
		"no blocks": {
			head + "capacity_min = \"lots\"\n",
			[]string{`invalid value for "capacity_min"`, `v.hcl:1,1: volume "v": at least one capability`},
		},
		"a missing argument": {
			"plugin_id = \"-\"\n" + capability,
			[]string{`missing argument "id"`, `v.hcl:1,13: volume "": plugin_id "-"`},
		},
		"another type": {
			head + "type = \"host\"\nname = \"\\u0001\"\n" + capability,
			[]string{`v.hcl:3,8: invalid value for "type"`, `v.hcl:4,8: volume "v": name must not hold control`},
		},
		"the argument that another one needs": {
			head + "capacity_min = \"2GiB\"\ncapacity_max = [1]\n" + capability,
			[]string{`invalid value for "capacity_max"`},
		},
		"a block that is not read": {
			head + "capability \"c\" {\n}\n",
			[]string{`block "capability" has 1 labels`},
		},
		"the number of a block": {
			head + "capability \"c\" {\n}\ncapability {\n access_mode = \"x\"\n}\n",
			[]string{`block "capability" has 1 labels`},
		},
		"a misspelt argument": {
			head + "capability {\n" + mode + " atachment_mode = \"file-system\"\n}\n",
			[]string{`unsupported argument "atachment_mode" (did you mean "attachment_mode"?)`},
		},
		"a block that another one needs": {
			head + device + "capability \"c\" {\n}\nmount_options {\n fs_type = \"ext4\"\n}\n",
			[]string{`block "capability" has 1 labels`},
		},
		"a block as a whole": {
			head + "capability {\n" + mode + "attachment_mode = [1]\n}\n" +
				"capability {\n" + mode + "attachment_mode = [1]\n}\n",
			[]string{`v.hcl:5,19: invalid value for "attachment_mode"`, `v.hcl:9,19: invalid value for "attachment_mode"`},
		},
		"what the preferred topologies need": {
			head + capability + "topology_request {\nrequired {\ntopology {\nsegments = \"x\"\n}\n}\n" +
				"preferred {\ntopology {\nsegments { zone = \"a\" }\n}\n}\n}\n",
			[]string{`invalid value for "segments"`},
		},
		"a required topology": {
			head + capability + "topology_request {\nrequired {\ntopology {\nsegments { zone = \"b\" }\n}\n" +
				"topology \"t\" {\n}\n}\npreferred {\ntopology {\nsegments { zone = \"a\" }\n}\n}\n}\n",
			[]string{`block "topology" has 1 labels`},
		},
		"a preferred topology": {
			head + "capacity_min = \"lots\"\n" + capability +
				"topology_request {\nrequired {\ntopology {\nsegments { zone = \"b\" }\n}\n}\n" +
				"preferred {\ntopology {\nsegments { zone = \"a\" }\n}\n}\n}\n",
			[]string{`invalid value for "capacity_min"`, `it must also be among the required`},
		},
	} {
		f, err := ReadVolume("v.hcl", []byte(c.src))
		if err == nil || f == nil {
			t.Errorf("%s: got %v, %v, want a file with faults", name, f, err)
			continue
		}
		f.Content.Canonicalize()
		lines := strings.Split(err.Error(), "\n")
		if more := f.Locate(validate.Volume(f.Content)); more != nil {
			lines = append(lines, strings.Split(more.Error(), "\n")...)
		}
		checkFaults(t, name, lines, c.want)
	}
}

// checkFaults compares faults with parts of them.
func checkFaults(t *testing.T, name string, lines, want []string) {
	t.Helper()
	matches := len(lines) == len(want)
	for i := 0; matches && i < len(lines); i++ {
		matches = strings.Contains(lines[i], want[i]) && strings.HasPrefix(lines[i], "v.hcl:")
	}
	if !matches {
		t.Errorf("%s: got\n%s\nwant %q", name, strings.Join(lines, "\n"), want)
	}
}

// TestReadDefinitions_PlaceTheFaultsOfTheirContent has files of a namespace and of a node pool with faults of
// the file and of the content.
func TestReadDefinitions_PlaceTheFaultsOfTheirContent(t *testing.T) {
	namespace, err := ReadNamespace("v.hcl", []byte(
		"name = \"a b\"\ndescription = [1]\ncapabilities {\n disabled_task_drivers = [\"x y\"]\n}\n"))
	if namespace == nil || err == nil {
		t.Fatalf("got %v, %v, want a file with faults", namespace, err)
	}
	err = namespace.Locate(validate.Namespace(namespace.Content))
	checkFaults(t, "namespace", strings.Split(err.Error(), "\n"), []string{
		`v.hcl:1,8: namespace: name "a b" must be`,
		`v.hcl:4,26: namespace "a b": capabilities: disabled_task_drivers: name "x y"`,
	})
	pool, err := ReadNodePool("v.hcl", []byte(
		"node_pool \"all\" {\n meta = 1\n scheduler_config {\n  scheduler_algorithm = \"x\"\n }\n}\n"))
	if pool == nil || err == nil {
		t.Fatalf("got %v, %v, want a file with faults", pool, err)
	}
	err = pool.Locate(validate.NodePool(pool.Content))
	checkFaults(t, "node pool", strings.Split(err.Error(), "\n"), []string{
		`v.hcl:1,1: node_pool: name "all" is built in`,
		`v.hcl:4,25: node_pool "all": scheduler_config: scheduler_algorithm "x"`,
	})
}

package refdocs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/agent/commands"
	"berth/cli"
	"berth/cli/clitest"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/validate"
)

// vendorNames returns the folders below examples/vendors.
func vendorNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("../../examples/vendors")
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}

	return names
}

// vendorFiles returns the base names of the files of a vendor.
func vendorFiles(t *testing.T, vendor string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../examples/vendors", vendor, "*"))
	if err != nil {
		t.Fatal(err)
	}

	for i, file := range files {
		files[i] = filepath.Base(file)
	}

	return files
}

// TestVendors_FilesPassTheChecksOfTheirCommands runs the command of each file: volume class apply for a
// class, job validate for all others.
func TestVendors_FilesPassTheChecksOfTheirCommands(t *testing.T) {
	w := clitest.NewCluster("")
	address := clitest.Serve(t, w.Caller, w.Agent)
	tree := cli.Tree(commands.All()...)

	for _, vendor := range vendorNames(t) {
		for _, file := range vendorFiles(t, vendor) {
			verb := []string{"job", "validate"}
			switch file {
			case "class.hcl":
				verb = []string{"volume", "class", "apply"}
			case "volume.hcl":
				checkVendorVolume(t, vendor)
				continue
			}

			name := filepath.Join("../../examples/vendors", vendor, file)
			code, out, errs := clitest.Run(t, tree, append(verb, "-address", address, name)...)
			if code != 0 || errs != "" {
				t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
			}
		}
	}
}

// readVendorVolume reads the volume file of a vendor.
func readVendorVolume(t *testing.T, vendor string) *structs.CSIVolume {
	t.Helper()
	name := path.Join("examples/vendors", vendor, "volume.hcl")
	file, err := jobspec.ReadVolume(name, []byte(readDoc(t, name)))
	if err != nil {
		t.Fatal(err)
	}

	return file.Content
}

// checkVendorVolume checks the volume file of a vendor as volume create does before it calls an agent.
func checkVendorVolume(t *testing.T, vendor string) {
	t.Helper()
	v := readVendorVolume(t, vendor)
	v.Canonicalize()
	err := validate.Volume(v)
	if err != nil {
		t.Errorf("%s/volume.hcl: %v", vendor, err)
	}
}

// readVendorJob reads a job file of a vendor.
func readVendorJob(t *testing.T, vendor, file string) *structs.Job {
	t.Helper()
	name := path.Join("examples/vendors", vendor, file)
	job, err := jobspec.ReadJob(name, []byte(readDoc(t, name)), &jobspec.Inputs{})
	if err != nil {
		t.Fatal(err)
	}

	return job.Job
}

// tasksOf returns the tasks of a job.
func tasksOf(job *structs.Job) (tasks []*structs.Task) {
	for _, g := range job.TaskGroups {
		tasks = append(tasks, g.Tasks...)
	}

	return tasks
}

// TestVendors_FilesFitTogether checks that the class of a vendor names the plugin that its jobs run, with
// both halves, that the app asks for this class, and that each image has a version.
func TestVendors_FilesFitTogether(t *testing.T) {
	version := regexp.MustCompile(`:v?\d+(\.\d+)+(-\w+)?$`)
	for _, vendor := range vendorNames(t) {
		name := path.Join("examples/vendors", vendor, "class.hcl")
		class, err := jobspec.ReadClass(name, []byte(readDoc(t, name)))
		if err != nil {
			t.Fatal(err)
		}

		var halves []structs.CSIKind
		for _, file := range vendorFiles(t, vendor) {
			if file == "class.hcl" || file == "volume.hcl" {
				continue
			}

			for _, task := range tasksOf(readVendorJob(t, vendor, file)) {
				image, _ := task.Config["image"].(string)
				if !version.MatchString(image) {
					t.Errorf("%s/%s: the image %q has no version", vendor, file, image)
				}

				if p := task.CSIPluginConfig; p != nil {
					halves = append(halves, p.Kinds()...)
					if p.ID != class.Content.PluginID {
						t.Errorf("%s/%s: plugin %q, class %q", vendor, file, p.ID, class.Content.PluginID)
					}
				}
			}
		}

		slices.Sort(halves)
		if want := []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode}; !slices.Equal(halves, want) {
			t.Errorf("%s: the jobs run %q, expected %q", vendor, halves, want)
		}

		for _, g := range readVendorJob(t, vendor, "app.hcl").TaskGroups {
			for label, v := range g.Volumes {
				class := class.Content.Name
				if v.Class == "" {
					row := readVendorVolume(t, vendor)
					if row.ID != v.Source || row.Class != class {
						t.Errorf("%s/app.hcl: volume %q is not that of volume.hcl", vendor, label)
					}
				} else if v.Class != class {
					t.Errorf("%s/app.hcl: volume %q has class %q", vendor, label, v.Class)
				}
			}
		}
	}
}

// TestVendors_HaveAPageEach checks that the page of a vendor names its files and no others, says whether it
// was run, and is in the list of pages.
func TestVendors_HaveAPageEach(t *testing.T) {
	list := readDoc(t, "docs/vendors/README.md")
	named := regexp.MustCompile(`examples/vendors/[\w-]+/[\w.-]+\.hcl`)
	names := vendorNames(t)

	for _, vendor := range names {
		text := readDoc(t, path.Join("docs/vendors", vendor+".md"))
		var want []string
		for _, file := range vendorFiles(t, vendor) {
			want = append(want, path.Join("examples/vendors", vendor, file))
		}

		got := named.FindAllString(text, -1)
		slices.Sort(got)
		got = slices.Compact(got)
		if !slices.Equal(got, want) {
			t.Errorf("docs/vendors/%s.md names %q; expected %q", vendor, got, want)
		}

		for _, half := range []string{"**Validated only:**", "`on_node_loss`"} {
			if !strings.Contains(text, half) {
				t.Errorf("docs/vendors/%s.md lacks %s", vendor, half)
			}
		}

		if !strings.Contains(list, "]("+vendor+".md)") {
			t.Errorf("docs/vendors/README.md has no link to %s.md", vendor)
		}
	}

	pages, err := filepath.Glob("../../docs/vendors/*.md")
	if err != nil || len(pages) != len(names)+1 {
		t.Errorf("%d pages for %d vendors (%v)", len(pages), len(names), err)
	}
}

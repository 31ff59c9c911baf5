package compose

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"berth/client/drivers/docker/taskconfig"
	"berth/jobspec"
	"berth/structs/defaults"
	"berth/structs/validate"
)

var update = flag.Bool("update", false, "write the golden files again")

func options() Options {
	return Options{Class: DefaultClass, Size: DefaultSize}
}

// TestConvert_Files compares job files with golden ones, and reads them as `berth job validate` does.
func TestConvert_Files(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"wordpress", "queue", "postgres", "shared", "hostile"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", name+".yaml")
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Convert(t.Context(), path, src, options())
			if err != nil {
				t.Fatal(err)
			}

			golden := filepath.Join("testdata", name+".hcl")
			if *update {
				err = os.WriteFile(golden, got.Text, 0o600)
				if err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got.Text, want) {
				t.Errorf("%v; got:\n%s", err, got.Text)
			}

			if !bytes.Equal(hclwrite.Format(got.Text), got.Text) {
				t.Error("the file is not in the canonical form")
			}
			read, err := jobspec.ReadJob(golden, got.Text, &jobspec.Inputs{})
			if err != nil {
				t.Fatal(err)
			}
			defaults.Canonicalize(read.Job)
			err = validate.Job(read.Job)
			if err != nil {
				t.Errorf("the job has faults: %v", err)
			}
			for _, g := range read.Job.TaskGroups {
				for _, task := range g.Tasks {
					_, err = taskconfig.Check(task.Config)
					if err != nil {
						t.Errorf("the driver rejects %s: %v", task.Name, err)
					}
				}
			}
			for _, note := range got.Notes {
				_, text, _ := strings.Cut(note, ": ")
				flat := strings.Join(strings.Fields(strings.ReplaceAll(string(got.Text), "#", "")), " ")
				first := strings.Join(strings.Fields(text), " ")
				if !strings.Contains(flat, first) {
					t.Errorf("the file lacks the note %q", note)
				}
			}
		})
	}
}

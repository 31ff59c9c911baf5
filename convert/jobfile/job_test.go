package jobfile

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"berth/jobspec"
	"berth/structs"
)

// notInFiles are fields that no job file has, or that have one value there.
var notInFiles = map[string]any{
	"Job.Status": nil, "Job.StatusDescription": nil, "Job.Stable": nil, "Job.Version": nil, "Job.Stop": nil,
	"Job.SubmitTime": nil, "Job.ConsulToken": nil, "Job.JobModifyIndex": nil, "Job.ParentID": nil,
	"Job.Dispatched": nil, "Job.Payload": nil, "Job.DispatchIdempotencyToken": nil, "Job.Indexes": nil,
	"ScalingPolicy.ID": nil, "ScalingPolicy.Namespace": nil, "ScalingPolicy.Target": nil,
	"ScalingPolicy.Indexes": nil, "PeriodicConfig.SpecType": nil, "Resources.DiskMB": nil,
	"NetworkResource.Device": nil, "NetworkResource.CIDR": nil, "NetworkResource.IP": nil,
	"ConnectProxy.ExposeConfig": nil, "ConnectExpose.Path": nil, "GatewayBindAddress.Name": nil,
	"Vault.Cluster": structs.DefaultLoginCluster, "Consul.Cluster": structs.DefaultLoginCluster,
	"Consul.Namespace": nil,
	"Job.Type":         structs.JobService, "VolumeRequest.Name": "key",
	"VolumeRequest.AccessMode":     structs.CSIMultiNodeReader,
	"VolumeRequest.AttachmentMode": structs.CSIBlockDevice, "Template.ChangeMode": structs.TemplateSignal,
	"Vault.ChangeMode": structs.TemplateSignal, "Task.Identity": &structs.WorkloadIdentity{Env: true},
	"Job.Migrate": &structs.MigrateStrategy{MaxParallel: 3, HealthCheck: "checks", HealthyDeadline: 2},
}

// fill sets each field of a value, and of all that is in it, to a value that is neither zero nor a default.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{map[string]any{"deep": []any{1.5, true, "text"}, "with space": "x"}}))
	case reflect.String:
		v.SetString("${NOMAD_TASK_NAME} ${other} %{x} \"q\" \\ é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int8:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(7)
	case reflect.Struct:
		for i := range v.NumField() {
			value, fixed := notInFiles[v.Type().Name()+"."+v.Type().Field(i).Name]
			switch {
			case !fixed:
				fill(v.Field(i))
			case value != nil:
				v.Field(i).Set(reflect.ValueOf(value))
			}
		}
	}
}

// filled returns a job with a value in each field that a job file can have.
func filled() *structs.Job {
	j := &structs.Job{}
	fill(reflect.ValueOf(j).Elem())
	// These exclude each other in one block.
	g := j.TaskGroups[0]
	second := *g.Networks[0]
	static := second.ReservedPorts[0]
	static.Value = 80
	second.ReservedPorts = []structs.Port{static}
	second.DynamicPorts[0].Value = 0
	g.Networks[0] = &second
	return j
}

// TestJob_WritesEachField holds that no field is forgotten: Job compares what it wrote.
func TestJob_WritesEachField(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{structs.JobService, structs.JobBatch, structs.JobSystem} {
		j := filled()
		j.Type = typ
		_, err := Job(j, nil)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// TestJob_OfFiles writes the jobs of files, as they are and with their defaults.
func TestJob_OfFiles(t *testing.T) {
	t.Parallel()
	var names []string
	for _, folder := range []string{"examples", "examples/*", "jobspec/testdata"} {
		pattern := filepath.Join("../..", folder, "*.hcl")
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, more...)
	}
	written := 0
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		read, err := jobspec.ReadJob(name, src, &jobspec.Inputs{})
		if err != nil {
			continue // a volume, or a file with faults
		}
		written++
		text, err := Job(read.Job, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(hclwrite.Format(text), text) {
			t.Errorf("%s: the file is not in the canonical form:\n%s", name, text)
		}
	}
	if written < 5 {
		t.Errorf("%d job files were found among %d", written, len(names))
	}
}

const small = `# for the reader

job "web" {
  group "app" {
    # of the group
    count = 3

    network {
      port "http" {
        to = 80
      }
    }

    task "server" {
      # of the task
      driver = "docker"

      config {
        image = "nginx:1"
        ports = ["http"]

        mount {
          source = "a"
        }
      }

      template {
        destination = "local/a"
        data        = <<EOT
server {
  $${literal} ${NOMAD_PORT_http}
}
EOT
      }

      resources {
        cpu    = 500
        memory = 300
      }
    }
  }
}
`

// TestJob_LooksLikeAPersonsFile: defaults are left out, comments are in their places.
func TestJob_LooksLikeAPersonsFile(t *testing.T) {
	t.Parallel()
	j := &structs.Job{ID: "web", Name: "web", Type: structs.JobService, TaskGroups: []*structs.TaskGroup{{
		Name:  "app",
		Count: 3,
		RestartPolicy: &structs.RestartPolicy{
			Attempts: 2,
			Interval: 30 * time.Minute,
			Delay:    15 * time.Second,
			Mode:     structs.RestartModeFail,
		},
		Networks: []*structs.NetworkResource{{DynamicPorts: []structs.Port{{Label: "http", To: 80}}}},
		Tasks: []*structs.Task{{
			Name:   "server",
			Driver: "docker",
			Config: map[string]any{
				"image": "nginx:1",
				"ports": []any{"http"},
				"mount": []any{map[string]any{"source": "a"}},
			},
			Templates: []*structs.Template{{
				DestPath:     "local/a",
				EmbeddedTmpl: "server {\n  ${literal} ${NOMAD_PORT_http}\n}\n",
			}},
			Resources: &structs.Resources{CPU: 500, MemoryMB: structs.DefaultTaskMemoryMB},
		}},
	}}}
	got, err := Job(j, Notes{"": {"for the reader"}, "app": {"of the group"}, "app/server": {"of the task"}})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != small {
		t.Errorf("got:\n%s\nwant:\n%s", got, small)
	}
}

// TestJob_RejectsAPartialFile: a job with a part for which job files have no words has no file.
func TestJob_RejectsAPartialFile(t *testing.T) {
	t.Parallel()
	j := filled()
	j.TaskGroups[0].Networks[0].CIDR = "10.0.0.0/8"
	_, err := Job(j, nil)
	if err == nil || !strings.Contains(err.Error(), "10.0.0.0/8") {
		t.Errorf("the error is %v, want one that shows the CIDR", err)
	}
}

// TestNotes_CannotAddArguments: a comment from outside stays one.
func TestNotes_CannotAddArguments(t *testing.T) {
	t.Parallel()
	j := &structs.Job{ID: "web", TaskGroups: []*structs.TaskGroup{{
		Name:  "g",
		Count: 1,
		Tasks: []*structs.Task{{Name: "t", Driver: "docker"}},
	}}}
	got, err := Job(j, Notes{"": {"one\r\nregion = \"other\"\u2028x"}})
	if err != nil || !strings.Contains(string(got), "# one\n# region = \"other\"x\n") {
		t.Errorf("got %v\n%s", err, got)
	}
}

func TestSizeText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		1: "1B", 1 << 10: "1KiB", 3 << 19: "1536KiB", 10 << 30: "10GiB", 1 << 62: "4096PiB",
		1000: "1000B", 0: "0",
	} {
		if got := SizeText(n); got != want {
			t.Errorf("SizeText(%d): got %s, want %s", n, got, want)
		}
	}
}

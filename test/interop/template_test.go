package interop

import (
	"reflect"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/defaults"
)

func TestClient_SendsAndReadsTemplates(t *testing.T) {
	want := &structs.Template{
		EmbeddedTmpl: `{{ env "X" }}`,
		DestPath:     "local/x",
		ChangeMode:   structs.TemplateScript,
		ChangeScript: &structs.ChangeScript{
			Command: "/bin/reload",
			Args:    []string{"x"},
			Timeout: structs.DefaultTemplateTimeout,
		},
		Splay:      new(time.Duration(0)),
		Perms:      "0644",
		Uid:        new(0),
		LeftDelim:  "{{",
		RightDelim: "}}",
		Envvars:    true,
	}
	for name, canonicalize := range map[string]bool{
		"as built":                         false,
		"with the defaults of the dialect": true,
	} {
		t.Run(name, func(t *testing.T) {
			c, caller := clientOfFakeServers(t)
			var got *structs.Job
			apitest.On(caller, structs.JobRegister, recordJob(&got))
			job := fullJob()
			job.TaskGroups[0].Tasks[0].Templates = []*public.Template{{
				EmbeddedTmpl: new(`{{ env "X" }}`),
				DestPath:     new("local/x"),
				ChangeMode:   new("script"),
				ChangeScript: &public.ChangeScript{
					Command: new("/bin/reload"),
					Args:    []string{"x"},
				},
				Splay:   new(time.Duration(0)),
				Uid:     new(0),
				Envvars: new(true),
			}}
			if canonicalize {
				job.Canonicalize()
			}
			for range 2 { // what the client has read, it can write back
				_, _, err := c.Jobs().Register(job, nil)
				if err != nil {
					t.Fatal(err)
				}
				defaults.Canonicalize(got)
				has := got.TaskGroups[0].Tasks[0].Templates
				if len(has) != 1 || !reflect.DeepEqual(has[0], want) {
					t.Errorf("the template arrives as %+v", has)
				}
				apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
				job, _, err = c.Jobs().Info("web/one", nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			x := job.TaskGroups[0].Tasks[0].Templates[0]
			if *x.DestPath != "local/x" || *x.ChangeScript.Command != "/bin/reload" || *x.Splay != 0 {
				t.Errorf("the client reads %+v", x)
			}
		})
	}
}

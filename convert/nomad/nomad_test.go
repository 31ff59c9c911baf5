package nomad

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"berth/convert/report"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// fake answers paths with texts.
type fake map[string]string

func (f fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if r.URL.Query().Get("type") == "host" {
		path += "?type=host"
	}
	text, known := f[path]
	if !known {
		http.Error(w, "no such path", http.StatusNotFound)
		return
	}
	_, _ = w.Write([]byte(text))
}

// migrate reads a cluster into a folder.
func migrate(t *testing.T, h http.Handler, variables bool) (*report.Report, string, error) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	folder, err := report.Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	r, err := Migrate(t.Context(), Options{Address: s.URL, Token: "token", Variables: variables}, folder)
	return r, dir, err
}

// mustMigrate is migrate for a cluster without faults. It returns the items by their names.
func mustMigrate(t *testing.T, h http.Handler, variables bool) (items map[string]*report.Item, dir string) {
	t.Helper()
	r, dir, err := migrate(t, h, variables)
	if err != nil {
		t.Fatal(err)
	}
	items = map[string]*report.Item{}
	for _, i := range r.Items {
		items[i.Name] = i
	}
	return items, dir
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stored is a job as the servers of the dialect have it. more has other fields of the task.
func stored(id, more string) string {
	return fmt.Sprintf(`{"ID": %[1]q, "Name": %[1]q, "Namespace": "default", "Region": "global", "Type": "service",
"Priority": 50, "Datacenters": ["dc1"], "NodePool": "default", "Multiregion": null, "Version": 7,
"Status": "running",
"TaskGroups": [{"Name": "g", "Count": 2, "Consul": {"Namespace": ""},
"Constraints": [{"LTarget": "${attr.nomad.version}", "RTarget": ">= 1.4.0", "Operand": "semver"},
 {"LTarget": "${attr.os.signals}", "RTarget": "SIGUSR1", "Operand": "set_contains"}],
"Services": [{"Name": "web", "Namespace": "default", "Provider": "nomad", "PortLabel": ""}],
"Tasks": [{"Name": "t", "Driver": "docker", "Config": {"image": "a:1"}, "Env": {"PASSWORD": "geheim-1"} %[2]s}]}]}`,
		id, more)
}

// TestMigrate_DecidesOnEachJob: as it is, with a warning, and not with the remedy.
func TestMigrate_DecidesOnEachJob(t *testing.T) {
	t.Parallel()
	items, dir := mustMigrate(t, fake{
		"/v1/jobs": `[{"ID": "good", "Namespace": "default"}, {"ID": "warned", "Namespace": "team"},
 {"ID": "bad/1", "Namespace": "default"}, {"ID": "gone", "Namespace": "default"},
 {"ID": "shared", "Namespace": "default"},
 {"ID": "good/periodic-1", "ParentID": "good", "Namespace": "default"}]`,
		"/v1/job/good": stored("good", ""),
		"/v1/job/shared": strings.Replace(stored("shared", ""), `"docker", "Config": {"image": "a:1"}`,
			`"exec", "Config": {"command": "a", "pid_mode": "host", "work_dir": "b"}`, 1),
		"/v1/job/warned":  stored("warned", `, "Constraints": [{"LTarget": "${attr.nomad.version}", "Operand": "is_set"}]`),
		"/v1/job/bad%2F1": stored("bad/1", `, "Vault": {"Policies": ["geheim-2"]}, "Schedule": {"a": "geheim-1"}`),
	}, false)
	if len(items) != 5 {
		t.Errorf("%d items, want 5: a child of a job is none", len(items))
	}
	for name, want := range map[string]struct {
		outcome report.Outcome
		file    string
		note    string
	}{
		"good":   {report.AsItIs, "jobs/default/good.hcl", ""},
		"warned": {report.Warnings, "jobs/team/warned.hcl", "attr.nomad.version"},
		"bad/1":  {report.Not, "jobs/default/bad%2F1.hcl", "name a role of Vault"},
		"gone":   {report.Not, "", "404"},
		"shared": {report.Not, "jobs/default/shared.hcl", "config.pid_mode: unknown field"},
	} {
		got := items[name]
		notes := strings.Join(got.Notes, "\n")
		if got.Outcome != want.outcome || got.File != want.file || !strings.Contains(notes, want.note) {
			t.Errorf("%s: got %+v, want %+v", name, *got, want)
		}
		if want.file == "" {
			continue
		}
		text := readFile(t, dir, want.file)
		if want.outcome == report.Not {
			if !strings.HasPrefix(text, "# This job does not run in berth yet:\n") {
				t.Errorf("%s has no warning:\n%s", name, text)
			}
			continue
		}
		read, err := jobspec.ReadJob(want.file, []byte(text), &jobspec.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		defaults.Canonicalize(read.Job)
		err = validate.Job(read.Job)
		g := read.Job.TaskGroups[0]
		if err != nil || len(g.Constraints) > 0 || g.Consul != nil || g.Services[0].Provider != "berth" {
			t.Errorf("%s: got %v\n%s", name, err, text)
		}
	}
	for _, name := range []string{"report.md", "report.json"} {
		if strings.Contains(readFile(t, dir, name), "geheim") {
			t.Errorf("%s has a secret", name)
		}
	}
}

// TestMigrate_WritesTheOthers: namespaces, volumes, policies and variables.
func TestMigrate_WritesTheOthers(t *testing.T) {
	t.Parallel()
	cluster := fake{
		"/v1/namespaces": `[{"Name": "default"}, {"Name": "team", "Description": "a", "Quota": "q"}]`,
		"/v1/volumes":    `[{"ID": "db", "Namespace": "team"}, {"ID": "none", "Namespace": "team"}]`,
		"/v1/volume/csi/db": `{"ID": "db", "Name": "db", "ExternalID": "vol-1", "PluginID": "ebs",
 "Secrets": {"key": "[REDACTED]"}, "Parameters": {"type": "gp3"}, "RequestedCapacityMin": 1073741824,
 "RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}],
 "MountOptions": {"FSType": "ext4", "MountFlags": ["[REDACTED]"]}}`,
		"/v1/volume/csi/none": `{"ID": "none", "ExternalID": "vol-2"}`,
		"/v1/acl/policies":    `[{"Name": "dev"}, {"Name": "odd"}]`,
		"/v1/acl/policy/dev":  `{"Rules": "namespace \"team\" {\n  policy = \"read\"\n}\n"}`,
		"/v1/acl/policy/odd":  `{"Rules": "nonsense {", "JobACL": {"JobID": "web"}}`,
		"/v1/vars":            `[{"Path": "nomad/jobs/web", "Namespace": "team"}]`,
		"/v1/var/nomad%2Fjobs%2Fweb": `{"Path": "nomad/jobs/web", "Namespace": "team", "Items": {"password": "geheim"},
 "CreateIndex": 7}`,
	}
	items, dir := mustMigrate(t, cluster, true)
	for name, want := range map[string]report.Outcome{
		"team": report.Warnings, "db": report.Warnings, "none": report.Not, "dev": report.AsItIs, "odd": report.Not,
		"nomad/jobs/web": report.AsItIs,
	} {
		if items[name] == nil || items[name].Outcome != want {
			t.Errorf("%s: got %+v, want %s", name, items[name], want)
		}
	}

	volume, err := jobspec.ReadVolume("db.hcl", []byte(readFile(t, dir, "volumes/team/db.hcl")))
	if err != nil {
		t.Fatal(err)
	}
	v := volume.Content
	if validate.Volume(v) != nil || v.ExternalID != "vol-1" || v.RequestedCapacityMin != 1<<30 ||
		v.Parameters["type"] != "gp3" || v.MountOptions.FSType != "ext4" || v.Namespace != "team" {
		t.Errorf("the volume is %+v", v)
	}
	namespace, err := jobspec.ReadNamespace("team.hcl", []byte(readFile(t, dir, "namespaces/team.hcl")))
	if err != nil || namespace.Content.Description != "a" {
		t.Errorf("the namespace is %+v, %v", namespace, err)
	}

	file := "variables/team/nomad%2Fjobs%2Fweb.json"
	info, err := os.Stat(filepath.Join(dir, file))
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(readFile(t, dir, file), "geheim") {
		t.Errorf("the variable: %v, %v", info.Mode(), err)
	}
	if strings.Contains(readFile(t, dir, "report.md")+readFile(t, dir, "report.json"), "geheim") {
		t.Error("the report has a value of a variable")
	}

	// Without consent, nothing of them is read.
	called := false
	_, dir = mustMigrate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called = called || strings.HasPrefix(r.URL.Path, "/v1/var")
		cluster.ServeHTTP(w, r)
	}), false)
	_, err = os.Stat(filepath.Join(dir, "variables"))
	if called || err == nil {
		t.Error("variables were read without -variables")
	}
}

// TestMigrate_ReadsAllPages, each with the token.
func TestMigrate_ReadsAllPages(t *testing.T) {
	t.Parallel()
	items, _ := mustMigrate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Nomad-Token") != "token" {
			t.Errorf("the request %s has the headers %v", r.URL, r.Header)
		}
		if r.URL.Path == "/v1/jobs" && r.URL.Query().Get("namespace") != "*" {
			t.Errorf("the request %s is not for all namespaces", r.URL)
		}
		if r.URL.Path != "/v1/jobs" {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		token := r.URL.Query().Get("next_token")
		if token == "" {
			w.Header().Set("X-Nomad-Nexttoken", "two")
		}
		_, _ = fmt.Fprintf(w, `[{"ID": "job%s", "Namespace": "default"}]`, token)
	}), false)
	if len(items) != 2 || items["job"] == nil || items["jobtwo"] == nil {
		t.Errorf("the items are %v", items)
	}
}

// TestMigrate_WithAHostileCluster ends with an error, and neither follows nor stores what it should not.
func TestMigrate_WithAHostileCluster(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"the same page again": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Nomad-Nexttoken", "again")
			_, _ = w.Write([]byte(`[]`))
		}, "the same one"},
		"an endless answer": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "more than"},
		"no JSON":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) }, "not the JSON"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusInternalServerError) }, "500"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "307"},
	} {
		_, _, err := migrate(t, http.HandlerFunc(c.answer), false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed with the token")
	}
}

// TestMigrate_KeepsFilesInTheFolder, whatever names the cluster has.
func TestMigrate_KeepsFilesInTheFolder(t *testing.T) {
	t.Parallel()
	items, dir := mustMigrate(t, fake{
		"/v1/jobs":                  `[{"ID": "../../x", "Namespace": ".."}]`,
		"/v1/job/..%2F..%2Fx":       stored("../../x", ""),
		"/v1/namespaces":            `[null, {"Name": "../y"}]`,
		"/v1/volumes":               `[{"ID": "/etc/z", "Namespace": "a/b"}]`,
		"/v1/volume/csi/%2Fetc%2Fz": `{"PluginID": "p"}`,
		"/v1/acl/policies":          `[{"Name": "/"}, null]`,
		"/v1/acl/policy/%2F":        `{"Rules": ""}`,
	}, false)
	if len(items) != 4 {
		t.Errorf("the items are %v", items)
	}
	for name, item := range items {
		if item.File == "" {
			t.Errorf("%s has no file: %v", name, item.Notes)
			continue
		}
		readFile(t, dir, item.File)
	}
}

// TestMigrate_WithoutACluster is an error of kind unavailable.
func TestMigrate_WithoutACluster(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(fake{})
	s.Close()
	_, err := Migrate(context.Background(), Options{Address: s.URL}, nil)
	if structs.KindOf(err) != structs.KindUnavailable {
		t.Errorf("got %v", err)
	}
	_, err = Migrate(context.Background(), Options{Address: "nowhere"}, nil)
	if structs.KindOf(err) != structs.KindInvalid || !strings.Contains(err.Error(), "http://127.0.0.1:4646") {
		t.Errorf("got %v", err)
	}
}

func TestReport_NamesTheFilesOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range mostLeft + 2 {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("old%02d.hcl", i)), nil, 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{reportText, reportData} {
		err := os.WriteFile(filepath.Join(dir, name), nil, 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	folder, err := report.Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	m := &migration{to: folder, report: &report.Report{}}
	err = m.write(&report.Item{}, "old00.hcl", nil)
	if err == nil {
		err = m.writeReport()
	}
	text := readFile(t, dir, reportText)
	if err != nil || strings.Contains(text, "old00") ||
		!strings.Contains(text, "the file old01.hcl was in the folder") ||
		!strings.Contains(text, "1 more files") || strings.Contains(text, reportText) {
		t.Errorf("%v\n%s", err, text)
	}
}

package nomad

import (
	"bytes"
	"encoding/json"
	"strings"

	"berth/structs"
)

// withoutStored removes from a stored job the fields that the servers of the dialect fill in, and that
// berth does not have.
func withoutStored(src []byte) ([]byte, error) {
	var job map[string]any
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber() // a number stays as it is
	err := dec.Decode(&job)
	if err != nil || job == nil {
		return nil, structs.Invalidf("the answer is not the JSON of a job")
	}
	delete(job, "NomadTokenID")
	delete(job, "VersionTag")
	for _, g := range objects(job["TaskGroups"]) {
		dropNamespaces(g)
		for _, t := range objects(g["Tasks"]) {
			dropNamespaces(t)
		}
	}
	return json.Marshal(job)
}

// dropNamespaces removes the namespace from the services of a group or a task: it is the job's.
func dropNamespaces(of map[string]any) {
	for _, s := range objects(of["Services"]) {
		delete(s, "Namespace")
	}
}

// objects returns the objects of a list.
func objects(list any) (all []map[string]any) {
	values, _ := list.([]any)
	for _, v := range values {
		object, isObject := v.(map[string]any)
		if isObject {
			all = append(all, object)
		}
	}
	return all
}

// remedies are for fields of jobs that berth does not know.
var remedies = map[string]string{
	"ConsulPartition":  "partitions are those of Consul Enterprise",
	"ExtraClaims":      "a token has the claims of its allocation alone",
	"IgnoreCollision":  "leave static out of the port",
	"Multiregion":      "a cluster has one region: register the job in each cluster",
	"NUMA":             "tasks are not bound to processors: use cpu",
	"Once":             "use change_mode = \"noop\"",
	"Policies":         "name a role of Vault, at which the task logs in with its identity",
	"RunOnFirstRender": "use a poststart task",
	"Schedule":         "start and stop the job from outside",
	"Secrets":          "let a template read a variable by nomadVar",
	"SELinuxLabel":     "label the files of the volume on the node",
	"TransparentProxy": "name each service in upstreams",
	"VaultNamespace":   "name the namespace in the vault block",
	"VaultToken":       "leave it out: it would be stored in plain text",
}

// withRemedy adds a remedy to a fault, whose text begins with the path of its field.
func withRemedy(fault string) string {
	path, _, _ := strings.Cut(fault, ": ")
	name := path[strings.LastIndex(path, ".")+1:]
	name, _, _ = strings.Cut(name, "[")
	remedy, known := remedies[name]
	if !known {
		return fault
	}
	return fault + "; " + remedy
}

package audit

import (
	"reflect"
	"strings"

	"berth/internal/auditlog"
	"berth/state"
	"berth/structs"
)

// maxObjects bounds the objects of an event.
const maxObjects = 16

// naming is a field of requests that names objects.
type naming struct {
	field string
	kind  string // "": the noun of the method
}

// names are the fields with names, in the order in which an event has them.
var names = []naming{
	{"VolumeID", "volume"},
	{"VolumeIDs", "volume"},
	{"SnapshotName", "snapshot"},
	{"SnapshotID", "snapshot"},
	{"ScheduleName", "snapshot schedule"},
	{"GroupName", "group snapshot"},
	{"ClaimID", "host volume claim"},
	{"AllocID", "allocation"},
	{"NodeID", "node"},
	{"NodeIDs", "node"},
	{"NodeName", "node"},
	{"JobID", "job"},
	{"TagName", "job version tag"},
	{"DeploymentID", "deployment"},
	{"EvalIDs", "evaluation"},
	{"KeyID", "root key"},
	{"AccessorID", "token"},
	{"TokenID", "join token"},
	{"Path", "variable"},
	{"AuthMethodName", "auth method"},
	{"Serial", ""},
	{"Operator", ""},
	{"ID", ""},
	{"Name", ""},
	{"Address", ""},
}

// rowsOf are the fields with whole rows, of which an event has the names alone.
var rowsOf = []struct {
	naming
	name string // the field of the row with its name
}{
	{naming{"Volumes", "volume"}, "ID"},
	{naming{"Snapshots", "volume"}, "SourceVolumeID"},
	{naming{"Snapshots", "snapshot"}, "Name"},
	{naming{"Volume", "host volume"}, "Name"},
	{naming{"Schedule", "volume"}, "VolumeID"},
	{naming{"Schedule", "snapshot schedule"}, "Name"},
	{naming{"Job", "job"}, "ID"},
	{naming{"Pool", "node pool"}, "Name"},
	{naming{"Definition", "namespace"}, "Name"},
	{naming{"Policy", "policy"}, "Name"},
	{naming{"Role", "role"}, "Name"},
	{naming{"Method", "auth method"}, "Name"},
	{naming{"Rule", "rule"}, "ID"},
	{naming{"Rule", "rule"}, "Name"},
	{naming{"Quota", "quota"}, "Name"},
	{naming{"Class", "volume class"}, "Name"},
	{naming{"Token", "token"}, "AccessorID"},
	{naming{"Token", "token"}, "Name"},
}

// answers are the fields of answers that name a new object.
var answers = []naming{
	{"DispatchedJobID", "job"},
	{"ID", ""},
}

// objects returns the objects that a request names, and the number of those beyond the bound.
func (r *Recorder) objects(c Call) (all []auditlog.Object, more int) {
	req := reflect.ValueOf(c.Req).Elem()
	for _, n := range names {
		all = append(all, named(c.Method, n, req.FieldByName(n.field))...)
	}
	for _, row := range rowsOf {
		all = append(all, ofRows(row.kind, row.name, req.FieldByName(row.field))...)
	}

	if len(all) > maxObjects {
		more = len(all) - maxObjects
		all = all[:maxObjects]
	}
	r.findNamespaces(all)
	return all, more
}

// newObjects returns the objects that an answer names.
func newObjects(c Call, resp any) (all []auditlog.Object) {
	v := reflect.ValueOf(resp)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	for _, n := range answers {
		all = append(all, named(c.Method, n, v.Elem().FieldByName(n.field))...)
	}
	return append(all, ofRows("token", "AccessorID", v.Elem().FieldByName("Token"))...)
}

// named returns the objects of a field that is a name or a list of names, none of a field that is missing.
func named(method string, n naming, v reflect.Value) (all []auditlog.Object) {
	kind := n.kind
	if kind == "" {
		kind = nounOf(method)
	}
	switch {
	case v.Kind() == reflect.String && v.String() != "":
		all = append(all, auditlog.Object{Type: kind, ID: text(v.String(), structs.MaxName)})
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		for i := range v.Len() {
			all = append(all, auditlog.Object{Type: kind, ID: text(v.Index(i).String(), structs.MaxName)})
		}
	}
	return all
}

// ofRows returns the objects of a field that is a row or a list of rows, none of a field that is missing.
func ofRows(kind, name string, v reflect.Value) (all []auditlog.Object) {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			all = append(all, ofRows(kind, name, v.Index(i))...)
		}
		return all
	}
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}

	id := v.Elem().FieldByName(name)
	if id.Kind() != reflect.String || id.String() == "" {
		return nil
	}
	o := auditlog.Object{Type: kind, ID: text(id.String(), structs.MaxName)}
	ns := v.Elem().FieldByName("Namespace")
	if ns.Kind() == reflect.String {
		o.Namespace = text(ns.String(), structs.MaxName)
	}
	return append(all, o)
}

// findNamespaces completes the objects whose rows alone tell their namespaces.
func (r *Recorder) findNamespaces(all []auditlog.Object) {
	tx := r.Store.Read()
	for i, o := range all {
		switch o.Type {
		case "allocation":
			if a := state.Alloc(tx, o.ID); a != nil {
				all[i].Namespace = a.Namespace
			}
		case "deployment":
			if d := state.Deployment(tx, o.ID); d != nil {
				all[i].Namespace = d.Namespace
			}
		}
	}
}

// nouns are the nouns of methods, where they differ from the name of the area.
var nouns = map[string]string{
	"CSIVolume":   "volume",
	"CSIPlugin":   "plugin",
	"JoinToken":   "join token",
	"NodePool":    "node pool",
	"Operator":    "server",
	"VolumeClass": "volume class",
}

// nounOf returns the type of the objects of a method, such as policy for ACL.UpsertPolicy.
func nounOf(method string) string {
	area, verb, _ := strings.Cut(method, ".")
	if area == "ACL" {
		verb = strings.TrimPrefix(strings.TrimPrefix(verb, "Upsert"), "Delete")
		return strings.ToLower(verb)
	}
	noun, ok := nouns[area]
	if !ok {
		noun = strings.ToLower(area)
	}
	return noun
}

// isForced reports whether a request asks for something without the proof that it is safe.
func isForced(req any) bool { return boolField(req, "Force") }

func boolField(req any, name string) bool {
	v := reflect.ValueOf(req).Elem().FieldByName(name)
	return v.Kind() == reflect.Bool && v.Bool()
}

// stringField returns the first of the fields that a request has.
func stringField(req any, fields ...string) string {
	for _, name := range fields {
		v := reflect.ValueOf(req).Elem().FieldByName(name)
		if v.Kind() == reflect.String {
			return v.String()
		}
	}
	return ""
}

package endpoints_test

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/rights"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// suspects lists what the servers make of each field that a node, a plugin, a job or a tenant fills in. Below
// the name of a type, each line has a word, names of fields and a reason:
//
//	pinned   a row of an operator decides, and another value is rejected
//	checked  the servers verify it by a row, a secret or a certificate, before a right or a proof follows
//	unused   no right and no proof follows from it
const suspects = "testdata/suspects.txt"

// A new field without a word fails: whoever adds it says what checks its value, or that no right and no proof
// follows from it.
func TestSuspects_EachFieldHasAWord(t *testing.T) {
	listed := readSuspects(t)
	for typ, fields := range suspectFields(t) {
		for _, field := range fields {
			if !listed[typ][field] {
				t.Errorf("%s has no line for %s.%s", suspects, typ, field)
			}
			delete(listed[typ], field)
		}
		if len(listed[typ]) == 0 {
			delete(listed, typ)
		}
	}
	for typ, fields := range listed {
		t.Errorf("%s: no suspect says this of %s: %s", suspects, typ, slices.Collect(maps.Keys(fields)))
	}
}

// readSuspects returns the listed fields of each type.
func readSuspects(t *testing.T) map[string]map[string]bool {
	t.Helper()
	content, err := os.ReadFile(suspects)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]map[string]bool{}
	typ := ""
	for i, line := range strings.Split(string(content), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !strings.HasPrefix(line, " "):
			typ = line
			if listed[typ] != nil {
				t.Errorf("%s:%d: a second %s", suspects, i+1, typ)
			}
			listed[typ] = map[string]bool{}
			continue
		}
		names, reason, _ := strings.Cut(line, ": ")
		words := strings.Fields(names)
		if typ == "" || len(words) < 2 || strings.TrimSpace(reason) == "" {
			t.Errorf("%s:%d: expected `word Field Field: reason` below a type", suspects, i+1)
			continue
		}
		if !slices.Contains([]string{"pinned", "checked", "unused"}, words[0]) {
			t.Errorf("%s:%d: %q is none of pinned, checked and unused", suspects, i+1, words[0])
		}
		for _, field := range words[1:] {
			if listed[typ][field] {
				t.Errorf("%s:%d: a second line for %s.%s", suspects, i+1, typ, field)
			}
			listed[typ][field] = true
		}
	}
	return listed
}

// suspectFields returns the exported fields of the types that suspects fill in.
func suspectFields(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, typ := range slices.Concat(saidByMachines(t), answeredByNodes(t)) {
		addFieldsBelow(all, typ)
	}
	for _, typ := range namedByTenants {
		all[typ.String()] = fieldsOfType(typ)
	}
	return all
}

// plumbing are the types that each request or answer has. A namespace is a name until the right of the method
// is decided for it, the gate checks tokens, and for the rest nobody is believed.
var plumbing = map[reflect.Type]bool{
	reflect.TypeFor[structs.QueryOptions](): true,
	reflect.TypeFor[structs.WriteOptions](): true,
	reflect.TypeFor[structs.QueryMeta]():    true,
	reflect.TypeFor[structs.WriteMeta]():    true,
	reflect.TypeFor[structs.Indexes]():      true,
}

// addFieldsBelow adds the fields of a type and of those that it consists of.
func addFieldsBelow(all map[string][]string, typ reflect.Type) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		addFieldsBelow(all, typ.Elem())
		return
	case reflect.Map:
		addFieldsBelow(all, typ.Key())
		addFieldsBelow(all, typ.Elem())
		return
	}
	if typ.Kind() != reflect.Struct || !strings.HasPrefix(typ.PkgPath(), "berth/") || plumbing[typ] {
		return
	}
	if _, known := all[typ.String()]; known {
		return
	}
	all[typ.String()] = fieldsOfType(typ)
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() {
			addFieldsBelow(all, f.Type)
		}
	}
}

func fieldsOfType(typ reflect.Type) (names []string) {
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() && !plumbing[f.Type] {
			names = append(names, f.Name)
		}
	}
	return names
}

// saidByMachines returns the requests in which a node says which one it is, and those that need no token.
func saidByMachines(t *testing.T) []reflect.Type {
	t.Helper()
	types := []reflect.Type{
		// Another port serves these.
		reflect.TypeFor[cluster.JoinRequest](),
		reflect.TypeFor[cluster.RenewLapsedRequest](),
		// These name the node of the certificate alone, without its secret.
		reflect.TypeFor[structs.AllocGetRequest](),
		reflect.TypeFor[structs.CSIClaimListRequest](),
	}
	for _, e := range endpointstest.New(t).List() {
		req := e.New()
		_, named := req.(interface {
			Credentials() (nodeID, secretID string)
		})
		if named || e.Needs == rights.Node.String() || strings.HasPrefix(e.Needs, rights.None("").String()) {
			types = append(types, reflect.TypeOf(req))
		}
	}
	return types
}

// answer is what comes back from a method.
type answer struct {
	method string
	typ    reflect.Type
}

func answerOf[Req, Resp any](m structs.Method[Req, Resp]) answer {
	return answer{m.Name, reflect.TypeFor[Resp]()}
}

// answersOfNodes are those of the methods that nodes serve to servers. relayed carries one of them over
// another server.
var (
	relayed        = answerOf(nodecalls.Relay)
	answersOfNodes = []answer{
		answerOf(nodecalls.ClientAllocData),
		answerOf(nodecalls.ClientCSIAllowCalls),
		answerOf(nodecalls.ClientCSIControllerAttach),
		answerOf(nodecalls.ClientCSIControllerCapacity),
		answerOf(nodecalls.ClientCSIControllerCreate),
		answerOf(nodecalls.ClientCSIControllerDelete),
		answerOf(nodecalls.ClientCSIControllerDetach),
		answerOf(nodecalls.ClientCSIControllerExpand),
		answerOf(nodecalls.ClientCSIControllerGet),
		answerOf(nodecalls.ClientCSIControllerList),
		answerOf(nodecalls.ClientCSIControllerModify),
		answerOf(nodecalls.ClientCSIControllerValidate),
		answerOf(nodecalls.ClientCSIGetHealth),
		answerOf(nodecalls.ClientCSIGroupCreate),
		answerOf(nodecalls.ClientCSIGroupDelete),
		answerOf(nodecalls.ClientCSIListHealth),
		answerOf(nodecalls.ClientCSINodeDetach),
		answerOf(nodecalls.ClientCSINodeExpand),
		answerOf(nodecalls.ClientCSINodeVolume),
		answerOf(nodecalls.ClientCSIQuiesce),
		answerOf(nodecalls.ClientCSIResume),
		answerOf(nodecalls.ClientCSISnapshotCreate),
		answerOf(nodecalls.ClientCSISnapshotDelete),
		answerOf(nodecalls.ClientCSISnapshotList),
		answerOf(nodecalls.ClientDriverValidate),
		answerOf(storage.NodeUsage),
	}
)

// answeredByNodes returns the answers of each method that a node serves to servers.
func answeredByNodes(t *testing.T) []reflect.Type {
	t.Helper()
	missing := methodsInSource(t)
	types := []reflect.Type{relayed.typ}
	for _, a := range answersOfNodes {
		types = append(types, a.typ)
		delete(missing, a.method)
	}
	for name := range missing {
		if strings.HasPrefix(name, "Client") {
			t.Errorf("answersOfNodes lacks %s", name)
		}
	}
	return types
}

// namedByTenants are the types by which a job, or who registers a volume, names what may be that of others.
// Their fields count, and not those below.
var namedByTenants = []reflect.Type{
	reflect.TypeFor[structs.CSIPluginConfig](),
	reflect.TypeFor[structs.CSIToken](),
	reflect.TypeFor[structs.VolumeRequest](),
	reflect.TypeFor[structs.CSIVolumeRegisterRequest](),
	reflect.TypeFor[structs.CSIVolume](),
	reflect.TypeFor[structs.CSIVolumeSpec](),
	reflect.TypeFor[storage.HostVolumeCreateRequest](),
	reflect.TypeFor[storage.DynamicHostVolume](),
	reflect.TypeFor[storage.SnapshotCreateRequest](),
	reflect.TypeFor[storage.CSISnapshot](),
	reflect.TypeFor[structs.Vault](),
	reflect.TypeFor[structs.Consul](),
	reflect.TypeFor[structs.WorkloadIdentity](),
	reflect.TypeFor[structs.Service](),
}

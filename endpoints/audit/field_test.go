package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/internal/opsocket"
	"berth/structs"
)

// marks fills values with texts that nothing else has, and knows the field of each.
type marks struct{ fields []string }

func (m *marks) mark(path string) string {
	m.fields = append(m.fields, path)
	return fmt.Sprintf("c4n4ry-%d-", len(m.fields)-1)
}

// fill sets each text below a value. depth bounds types that contain themselves.
func (m *marks) fill(path string, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.mark(path))
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(m.mark(path)))
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			m.fill(path, v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Type != reflect.TypeFor[*structs.Origin]() && f.Name != "Region" {
				m.fill(strings.TrimPrefix(path+"."+f.Name, "."), v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(m.mark(path)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		m.fill(path, v.Index(0), depth)
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		m.fill(path, elem, depth)
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Key().Kind() == reflect.String {
			v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), elem)
		}
	}
}

// shownFields are the fields of requests that events may have, besides the texts of errors: names and
// reasons.
var shownFields = strings.Fields(`
	QueryOptions.Namespace WriteOptions.Namespace
	AccessorID Address AllocID AuthMethodName ClaimID DeploymentID EvalIDs GroupName ID JobID KeyID Name
	NodeID NodeIDs NodeName Operator Path Serial SnapshotID SnapshotName TagName TokenID VolumeID VolumeIDs
	Class.Name
	Definition.Name Job.ID Job.Namespace Method.Name Policy.Name Pool.Name Quota.Name Role.Name Rule.ID Rule.Name
	Snapshots.Name Snapshots.SourceVolumeID Schedule.Name Schedule.Namespace Schedule.VolumeID ScheduleName
	Token.AccessorID Token.Name Volume.CSIVolumeSpec.Name Volume.Name Volume.Namespace Volumes.ID
	Volumes.Namespace
	Reason Why
`)

// quotedFields are those that errors quote besides.
var quotedFields = strings.Fields(`
	Class.PluginID Class.SecretsFrom Schedule.Crons Schedule.SecretsFrom Schedule.TimeZone
	Config.SchedulerAlgorithm Definition.Quota Eligibility Inline
	Job.Affinities.Operand Job.Constraints.Operand Job.Type Mode
	Method.Type OnNodeLoss Op PluginDrift.Drift Pool.SchedulerConfiguration.SchedulerAlgorithm
	Role Role.ID Rule.On SecretsFrom ServiceName
	Quota.Limits.RegionLimit.Storage.Of.Kind Token.Roles.ID Token.Roles.Name
	Volumes.CSIVolumeSpec.Class
	Volume.Constraints.Operand Volume.RequestedCapabilities.AccessMode
`)

// TestAudit_ShowsFewFields sends each method a request whose texts are all marked. No line has a field beyond
// the lists. The requests come over the operator socket, without a token and with an unknown one.
func TestAudit_ShowsFewFields(t *testing.T) {
	config := core.DefaultSettings()
	config.VolumeTimeout = 1
	s := endpointstest.New(t, config)
	s.Guard()
	_, events := audited(t, s)
	shown := map[string]bool{}
	for _, e := range s.List() {
		for _, secret := range []string{"", "c4n4ry-of-a-token"} {
			m := &marks{}
			req := e.New()
			m.fill("", reflect.ValueOf(req).Elem(), 6)
			setSecret(req, secret)
			_, _ = e.Serve(opsocket.Mark(t.Context()), req) // the lines count, whatever comes of it
			for _, is := range events() {
				text := is.Error
				m.note(text, shown)
				is.Error = ""
				line, err := json.Marshal(is)
				if err != nil {
					t.Fatal(err)
				}
				without := map[string]bool{}
				m.note(string(line), without)
				for field := range without {
					if !slices.Contains(shownFields, field) {
						t.Errorf("%s: an event has %s", e.Name, field)
					}
					shown[field] = true
				}
				if bytes.Contains(line, []byte("c4n4ry-of")) || strings.Contains(text, "c4n4ry-of") {
					t.Errorf("%s: an event has the token", e.Name)
				}
			}
		}
	}

	all := slices.Concat(shownFields, quotedFields)
	for field := range shown {
		if !slices.Contains(all, field) {
			t.Errorf("the text of an error has %s", field)
		}
	}
	for _, field := range all {
		if !shown[field] {
			t.Errorf("no event has %s: leave it out of the list", field)
		}
	}
}

// note notes the fields whose marks a text has.
func (m *marks) note(text string, shown map[string]bool) {
	for i, field := range m.fields {
		if strings.Contains(text, fmt.Sprintf("c4n4ry-%d-", i)) {
			shown[field] = true
		}
	}
}

// setSecret sets the token of a request.
func setSecret(req any, secret string) {
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		r.Query().AuthToken = secret
	case interface{ Write() *structs.WriteOptions }:
		r.Write().AuthToken = secret
	}
}

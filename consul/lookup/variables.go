package lookup

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// The values of answers about variables. Their fields and methods have the names that templates of the
// dialect use.

// VariableMeta is a variable without its items. As a text it is its path.
type VariableMeta struct {
	Namespace   string
	Path        string
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  NanoTime
	ModifyTime  NanoTime
}

// String returns the path.
func (m *VariableMeta) String() string { return m.Path }

// NanoTime is a time in UnixNano. As a text it has the form of RFC 3339.
type NanoTime int64

// Time returns the time in UTC.
func (t NanoTime) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// String returns the time as a text.
func (t NanoTime) String() string { return t.Time().Format(time.RFC3339) }

// Variable is a variable with its items.
type Variable struct {
	VariableMeta
	Items VariableItems
}

// VariableItem is an item of a variable. As a text it is its value.
type VariableItem struct {
	Key   string
	Value string
	of    *VariableMeta // and not the variable: a value of a template never holds itself
}

// String returns the value.
func (i VariableItem) String() string { return i.Value }

// MarshalJSON writes the value.
func (i VariableItem) MarshalJSON() ([]byte, error) { return json.Marshal(i.Value) }

// Metadata returns the variable without its items.
func (i VariableItem) Metadata() *VariableMeta { return i.of }

// VariableItems are the items of a variable by their names.
type VariableItems map[string]VariableItem

// Keys returns the names in their order.
func (v VariableItems) Keys() []string { return slices.Sorted(maps.Keys(v)) }

// Values returns the values in the order of their names.
func (v VariableItems) Values() (values []string) {
	for _, k := range v.Keys() {
		values = append(values, v[k].Value)
	}
	return values
}

// Tuple is a name with its value.
type Tuple struct{ K, V string }

// Tuples returns the names and values in the order of the names.
func (v VariableItems) Tuples() (all []Tuple) {
	for _, k := range v.Keys() {
		all = append(all, Tuple{k, v[k].Value})
	}
	return all
}

// Metadata returns the variable without its items, nil if it has none.
func (v VariableItems) Metadata() *VariableMeta {
	for _, i := range v {
		return i.Metadata()
	}
	return nil
}

// ParseVariable returns the query for a variable of a namespace.
func ParseVariable(namespace, path string) Query {
	return Query{Kind: BerthVariable, Name: strings.Trim(path, "/"), Namespace: namespace}
}

// ParseVariables returns the query for the variables of a namespace below a prefix, if they belong to jobs.
func ParseVariables(namespace, prefix string) Query {
	return Query{Kind: BerthVariables, Name: strings.TrimPrefix(prefix, "/"), Namespace: namespace}
}

// variable reads a variable. The value is a *Variable, nil if it does not exist.
func (s *Servers) variable(ctx context.Context, q Query, options structs.QueryOptions) (*Answer, error) {
	req := &access.VariableGetRequest{Path: q.Name, QueryOptions: options}
	req.NodeID, req.SecretID = s.Node()
	resp, err := rpc.Call(ctx, s.Caller, access.VariableGet, req)
	switch {
	case structs.IsKind(err, structs.KindNotFound):
		return s.absent(ctx, options)
	case err != nil:
		return nil, err
	}

	v := &Variable{VariableMeta: metaOf(&resp.Variable.VariableMetadata), Items: VariableItems{}}
	for k, value := range resp.Variable.Items {
		v.Items[k] = VariableItem{k, value, &v.VariableMeta}
	}
	return &Answer{v, resp.Index}, nil
}

// absent is the answer for a variable that does not exist. An error has no index, so the one of a list of
// variables takes its place: the next query then waits for a change of them.
func (s *Servers) absent(ctx context.Context, options structs.QueryOptions) (*Answer, error) {
	req := &access.VariableListRequest{QueryOptions: options}
	req.MinIndex = 0
	req.NodeID, req.SecretID = s.Node()
	resp, err := rpc.Call(ctx, s.Caller, access.VariableList, req)
	if err != nil {
		return nil, err
	}
	return &Answer{(*Variable)(nil), resp.Index}, nil
}

// variables reads the variables below a prefix that the node may read.
func (s *Servers) variables(ctx context.Context, q Query, options structs.QueryOptions) (*Answer, error) {
	req := &access.VariableListRequest{QueryOptions: options}
	req.Prefix = q.Name
	req.NodeID, req.SecretID = s.Node()
	resp, err := rpc.Call(ctx, s.Caller, access.VariableList, req)
	if err != nil {
		return nil, err
	}
	list := []*VariableMeta{}
	for _, v := range resp.Variables {
		meta := metaOf(v)
		list = append(list, &meta)
	}
	return &Answer{list, resp.Index}, nil
}

func metaOf(v *access.VariableMetadata) VariableMeta {
	return VariableMeta{
		Namespace:   v.Namespace,
		Path:        v.Path,
		CreateIndex: v.CreateIndex,
		ModifyIndex: v.ModifyIndex,
		CreateTime:  NanoTime(v.CreateTime),
		ModifyTime:  NanoTime(v.ModifyTime),
	}
}

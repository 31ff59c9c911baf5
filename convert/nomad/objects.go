package nomad

import (
	"cmp"
	"context"
	"net/url"

	"berth/convert/report"
)

// kind is a kind of objects in namespaces: how the report names it, and where the cluster has it.
type kind struct {
	name   string
	list   string // the path of the list
	typ    string // the parameter type of the list, "" for none
	object string // the path of one object, before its ID
}

// stub is an object of a list.
type stub struct {
	ID        string
	Namespace string
	ParentID  string
	Path      string // of a variable, in place of an ID
}

// each reads the objects of a kind in all namespaces. write writes the file of one. An object that cannot be
// read is in the report.
func each[T any](ctx context.Context, m *migration, k kind, write func(*report.Item, *stub, *T) error) error {
	query := url.Values{}
	if k.typ != "" {
		query.Set("type", k.typ)
	}
	all, err := list[stub](ctx, m.client, k.list, query)
	if err != nil {
		return m.unread(err, k.name+"s")
	}
	for _, s := range all {
		if s.ParentID != "" { // the cluster has started the job for its parent
			continue
		}
		id := cmp.Or(s.ID, s.Path)
		item := m.report.Add(k.name, s.Namespace, id)
		var object T
		_, err = m.client.get(ctx, k.object+url.PathEscape(id), url.Values{"namespace": {s.Namespace}}, &object)
		if err != nil {
			item.Add(report.Not, "it was not read: "+err.Error())
			continue
		}
		err = write(item, &s, &object)
		if err != nil {
			return err
		}
	}
	return nil
}

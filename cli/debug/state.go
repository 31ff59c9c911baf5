package debug

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"berth/api"
	"berth/structs"
)

// maxAnswer bounds the bytes of one answer, and maxItems the elements of a list that are read each.
const (
	maxAnswer = 256 << 20
	maxItems  = 500
)

// captureState writes all captures of the cluster into a directory.
func (d *collector) captureState(ctx context.Context, dir string) {
	for _, c := range clusterCaptures {
		if ctx.Err() != nil {
			return
		}
		d.capture(ctx, dir, c)
	}
}

// captureTime bounds each capture: an agent that hangs costs its own files alone.
var captureTime = time.Minute

// capture writes the allowed fields of an answer into a directory.
func (d *collector) capture(ctx context.Context, dir string, c capture) {
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	file := filepath.Join(dir, c.file+".json")
	value, err := d.read(ctx, c)
	if err == nil {
		err = d.writeJSON(file, value)
	}
	if err != nil {
		d.missing(file, err)
	}
}

// read returns the allowed fields of an answer, or of the answers for the elements of a list. An element that
// has gone since is left out.
func (d *collector) read(ctx context.Context, c capture) (any, error) {
	answer, err := d.get(ctx, c.path, c.query)
	if err != nil || c.item == "" {
		return c.fields.Keep(answer), err
	}

	list, _ := answer.([]any)
	all := []any{}
	for _, element := range list[:min(len(list), maxItems)] {
		fields, _ := element.(map[string]any)
		id, _ := fields[c.id].(string)
		query := ""
		if namespace, _ := fields["Namespace"].(string); namespace != "" {
			query = url.Values{"namespace": {namespace}}.Encode()
		}
		one, err := d.get(ctx, c.item+url.PathEscape(id), query)
		if structs.IsKind(err, structs.KindNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c.fields.Keep(one))
	}
	// The rest is there as it is in the list.
	for _, element := range list[min(len(list), maxItems):] {
		all = append(all, c.fields.Keep(element))
	}
	return all, nil
}

// get reads an answer of the API.
func (d *collector) get(ctx context.Context, path, query string) (any, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, structs.Internalf("the query %q: %w", query, err)
	}
	route := &api.Route{Methods: http.MethodGet, Path: path}
	resp, err := api.Raw(ctx, d.call.API, route, api.Request{Query: values})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	var value any
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&value)
	if err != nil {
		return nil, structs.Unavailablef("the answer is incomplete: %w", err)
	}
	return value, nil
}

// writeJSON writes a file with one value.
func (d *collector) writeJSON(file string, value any) error {
	f, err := d.create(file)
	if err != nil {
		return err
	}
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	err = e.Encode(value)
	err = cmp.Or(err, f.Close())
	if err == nil {
		d.has(file)
	}
	return err
}

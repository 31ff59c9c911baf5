// Package redaction makes a state that may be given to others of a saved one: without keys, encrypted values,
// secrets and hashes of tokens, and without the texts of users.
//
// It reads no rows, but the file of the state (see mvcc.ReadTx.Save), piece by piece. A table, a field and a
// text stay only if a list here names them. So a new one is left out until somebody has thought about it.
// Numbers and times stay wherever their object stays: they are the structure of the cluster.
package redaction

import (
	"fmt"
	"io"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// tables are the tables that stay. Those of keys, tokens, certificates, variables, policies and the sources
// of jobs are not among them.
var tables = []mvcc.AnyTable{
	schema.Nodes, schema.NodeLeases, schema.LeaseBounds,
	schema.Plugins, schema.Instances, schema.PluginCounts, schema.PluginConfigs,
	schema.Volumes, schema.VolumeClasses, schema.Claims, schema.ClaimQueues, schema.Attachments,
	schema.JobVersions, schema.Jobs, schema.PeriodicLaunches, schema.Deployments,
	schema.Allocs, schema.Evals, schema.Unblocks,
	schema.SchedulerConfig, schema.AutopilotConfig, schema.Namespaces, schema.NodePools, schema.Quotas,
	schema.HostClaims, schema.ClusterTimes, schema.WrongClocks,
}

// indexes is the table of package mvcc with the newest index of each table.
const indexes = "table_indexes"

// Redact reads the file of a state, and writes the redacted one. The error is invalid for a file that is not
// one of a state, or that of w.
func Redact(r io.Reader, w io.Writer) error {
	to := &target{Writer: w}
	err := redact(mvcc.NewPieceReader(r), mvcc.NewPieceWriter(to))
	switch {
	case to.err != nil:
		return to.err
	case err != nil:
		return structs.Invalidf("redacting the state: %w", err)
	}
	return nil
}

// target keeps the error of a writer.
type target struct {
	io.Writer
	err error
}

func (t *target) Write(b []byte) (int, error) {
	n, err := t.Writer.Write(b)
	if err != nil {
		t.err = err
	}
	return n, err
}

func redact(in mvcc.PieceReader, out mvcc.PieceWriter) error {
	head, err := in.ReadInto(nil)
	if err == nil {
		err = out.Write(head) // format, version and index
	}
	for err == nil {
		var name string
		err = in.Decode(&name)
		if err == nil && name == "" {
			return out.Encode("")
		}
		if err == nil {
			err = copyTable(in, out, name)
		}
	}
	return err
}

// copyTable copies the chunks of a table, if it stays. An empty piece ends it.
func copyTable(in mvcc.PieceReader, out mvcc.PieceWriter, name string) error {
	stays := name == indexes
	for _, t := range tables {
		stays = stays || t.Name() == name
	}
	if stays {
		err := out.Encode(name)
		if err != nil {
			return err
		}
	}
	for {
		piece, err := in.ReadInto(nil)
		if err == nil && stays {
			err = copyChunk(out, piece)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		if len(piece) == 0 {
			return nil
		}
	}
}

func copyChunk(out mvcc.PieceWriter, piece []byte) error {
	if len(piece) == 0 {
		return out.Write(nil)
	}
	var rows []map[string]any
	err := codec.Decode(piece, &rows)
	if err != nil {
		return err
	}
	for i, row := range rows {
		rows[i] = fields(row)
	}
	return out.Encode(rows)
}

// fields returns the fields of an object that stay.
func fields(object map[string]any) map[string]any {
	left := map[string]any{}
	for name, value := range object {
		switch {
		case byKey[name]:
			left[name] = entries(value)
		case named[name]:
			left[name] = keep(value)
		case isNumber(value):
			left[name] = value
		}
	}
	return left
}

// keep returns what stays of the value of a field that is named.
func keep(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return fields(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = keep(element)
		}
		return list
	}
	return value
}

// entries returns a map whose keys are names of the cluster, such as those of tasks.
func entries(value any) any {
	object, isObject := value.(map[string]any)
	if !isObject {
		return keep(value)
	}
	left := map[string]any{}
	for key, entry := range object {
		left[key] = keep(entry)
	}
	return left
}

func isNumber(value any) bool {
	switch value.(type) {
	case bool, int64, uint64, float32, float64, nil:
		return true
	}
	return false
}

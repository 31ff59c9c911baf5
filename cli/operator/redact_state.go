package operator

import (
	"fmt"
	"io"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// redactedTables are the tables that stay. Those of keys, tokens, certificates, variables, policies and the
// sources of jobs are not among them.
var redactedTables = []mvcc.AnyTable{
	schema.Nodes, schema.NodeLeases, schema.LeaseBounds,
	schema.Plugins, schema.Instances, schema.PluginCounts, schema.PluginConfigs,
	schema.Volumes, schema.VolumeClasses, schema.Claims, schema.ClaimQueues, schema.Attachments,
	schema.JobVersions, schema.Jobs, schema.PeriodicLaunches, schema.Deployments,
	schema.Allocs, schema.Evals, schema.Unblocks,
	schema.SchedulerConfig, schema.AutopilotConfig, schema.Namespaces, schema.NodePools, schema.Quotas,
	schema.HostClaims, schema.ClusterTimes, schema.WrongClocks,
}

// redactedIndexes is the table of package mvcc with the newest index of each table.
const redactedIndexes = "table_indexes"

// redactSaved makes a state that may be given to others of a saved one: without keys, encrypted values,
// secrets and hashes of tokens, and without the texts of users. The error is invalid for a file that is not
// one of a state, or comes from w.
//
// It reads no rows, but the file of the state (see mvcc.ReadTx.Save), piece by piece. A table, a field and a
// text stay only if a list here names them. So a new one is left out until somebody has thought about it.
// Numbers and times stay wherever their object stays: they are the structure of the cluster.
func redactSaved(r io.Reader, w io.Writer) error {
	to := &redactTarget{Writer: w}
	err := redactPieces(mvcc.NewPieceReader(r), mvcc.NewPieceWriter(to))
	switch {
	case to.err != nil:
		return to.err
	case err != nil:
		return structs.Invalidf("redacting the state: %w", err)
	}
	return nil
}

// redactTarget keeps the error of a writer.
type redactTarget struct {
	io.Writer
	err error
}

func (t *redactTarget) Write(b []byte) (int, error) {
	n, err := t.Writer.Write(b)
	if err != nil {
		t.err = err
	}
	return n, err
}

func redactPieces(in mvcc.PieceReader, out mvcc.PieceWriter) error {
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
			err = copyRedactedTable(in, out, name)
		}
	}
	return err
}

// copyRedactedTable copies the chunks of a table, if it stays. An empty piece ends it.
func copyRedactedTable(in mvcc.PieceReader, out mvcc.PieceWriter, name string) error {
	stays := name == redactedIndexes
	for _, t := range redactedTables {
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
			err = copyRedactedChunk(out, piece)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		if len(piece) == 0 {
			return nil
		}
	}
}

func copyRedactedChunk(out mvcc.PieceWriter, piece []byte) error {
	if len(piece) == 0 {
		return out.Write(nil)
	}
	var rows []map[string]any
	err := codec.Decode(piece, &rows)
	if err != nil {
		return err
	}
	for i, row := range rows {
		rows[i] = keptFields(row)
	}
	return out.Encode(rows)
}

// keptFields returns the fields of an object that stay.
func keptFields(object map[string]any) map[string]any {
	left := map[string]any{}
	for name, value := range object {
		switch {
		case keptByKey[name]:
			left[name] = keptEntries(value)
		case keptNames[name]:
			left[name] = keptValue(value)
		case isNumber(value):
			left[name] = value
		}
	}
	return left
}

// keptValue returns what stays of the value of a field that is named.
func keptValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return keptFields(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = keptValue(element)
		}
		return list
	}
	return value
}

// keptEntries returns a map whose keys are names of the cluster, such as names of tasks.
func keptEntries(value any) any {
	object, isObject := value.(map[string]any)
	if !isObject {
		return keptValue(value)
	}
	left := map[string]any{}
	for key, entry := range object {
		left[key] = keptValue(entry)
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

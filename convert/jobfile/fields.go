package jobfile

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/internal/conf"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/storage"
)

// usuals has, by type, the values that an argument has without a word in the file.
var usuals = valuesByType(
	structs.Service{
		Provider:    structs.ServiceProviderConsul,
		AddressMode: structs.AddressModeAuto,
		OnUpdate:    structs.OnUpdateRequireHealthy,
	},
	structs.ConnectExposePath{Protocol: structs.DefaultExposeProtocol},
	structs.GatewayListener{Protocol: structs.DefaultListenerProtocol},
	structs.VolumeMount{PropagationMode: structs.PropagationPrivate},
	structs.SnapshotCommands{Timeout: storage.DefaultSnapshotTimeout},
	structs.VolumeOwnership{Policy: structs.OwnershipRootMismatch},
	structs.ChangeScript{Timeout: structs.DefaultTemplateTimeout},
	structs.Template{
		ChangeMode: structs.TemplateRestart,
		Splay:      new(time.Duration(structs.DefaultTemplateSplay)),
		Perms:      structs.DefaultTemplatePerms,
		LeftDelim:  structs.DefaultLeftDelim,
		RightDelim: structs.DefaultRightDelim,
	},
	structs.TaskArtifact{RelativeDest: "local/", GetterMode: structs.ArtifactAny},
	structs.CSIPluginConfig{
		MountDir:            structs.DefaultPluginMountDir,
		StagePublishBaseDir: structs.DefaultPluginStageDir,
		HealthTimeout:       structs.DefaultHealthTimeout,
		TokensIn:            structs.TokensInContext,
	},
	structs.CSIToken{TTL: structs.DefaultIdentityTTL},
	structs.Vault{
		Env:        new(true),
		ChangeMode: structs.TemplateRestart,
		Cluster:    structs.DefaultLoginCluster,
	},
	structs.WorkloadIdentity{
		Name:       structs.DefaultIdentity,
		Audience:   []string{structs.DefaultAudience},
		ChangeMode: structs.TemplateNoop,
	},
	structs.ParameterizedJobConfig{Payload: structs.PayloadOptional},
	structs.Task{KillTimeout: structs.DefaultKillTimeout},
)

func valuesByType(values ...any) map[reflect.Type]reflect.Value {
	byType := map[reflect.Type]reflect.Value{}
	for _, value := range values {
		v := reflect.ValueOf(value)
		byType[v.Type()] = v
	}
	return byType
}

// fill adds the arguments of a value of package structs and its blocks after them. The tags of block, by
// which package jobspec reads them, have their names; the fields have the same Go names in both. What is
// zero or usual is left out, and so are the names in byHand.
func (w *writer) fill(block reflect.Type, value any, byHand ...string) {
	v := reflect.Indirect(reflect.ValueOf(value))
	w.fillBut(block, v, usuals[v.Type()], byHand)
}

// fillBut is fill with the values that are usual here, invalid for none.
func (w *writer) fillBut(block reflect.Type, v, usual reflect.Value, byHand []string) {
	w.arguments(block, v, usual, byHand)
	w.inner(block, v, byHand)
}

// fieldsOf returns the fields of a block that a value has.
func fieldsOf(block reflect.Type, v reflect.Value, byHand []string) []conf.Field {
	fields, _ := conf.Fields(block)
	return slices.DeleteFunc(fields, func(f conf.Field) bool {
		return slices.Contains(byHand, f.Name) || !v.FieldByName(f.Go).IsValid()
	})
}

// arguments adds the arguments. A map is written as a block, so it comes with the blocks.
func (w *writer) arguments(block reflect.Type, v, usual reflect.Value, byHand []string) {
	for _, f := range fieldsOf(block, v, byHand) {
		x := v.FieldByName(f.Go).Interface()
		_, isPairs := x.(map[string]string)
		_, isValues := x.(map[string]any)
		switch {
		case f.Block != nil || isPairs || isValues:
		case f.Required:
			w.set(f.Name, x)
		case usual.IsValid():
			w.put(f.Name, x, usual.FieldByName(f.Go).Interface())
		default:
			w.put(f.Name, x)
		}
	}
}

// inner adds the maps, and the blocks after them.
func (w *writer) inner(block reflect.Type, v reflect.Value, byHand []string) {
	fields := fieldsOf(block, v, byHand)
	for _, f := range fields {
		switch x := v.FieldByName(f.Go).Interface().(type) {
		case map[string]string:
			w.pairs(f.Name, x)
		case map[string]any:
			w.values(f.Name, x)
		}
	}
	for _, f := range fields {
		if f.Block != nil {
			w.blocks(f, v.FieldByName(f.Go))
		}
	}
}

// blocks adds a block, each of a list, or each of a map with its key as the label.
func (w *writer) blocks(f conf.Field, x reflect.Value) {
	switch x.Kind() {
	case reflect.Slice:
		for _, element := range x.Seq2() {
			w.blocks(f, element)
		}
	case reflect.Map:
		byLabel := x.Interface().(map[string]*structs.GatewayBindAddress)
		for _, label := range slices.Sorted(maps.Keys(byLabel)) {
			w.block(f.Name, func() { w.fill(f.Block, byLabel[label]) }, label)
		}
	case reflect.Pointer:
		if x.IsNil() {
			return
		}
		var labels []string
		if _, label := conf.Fields(f.Block); label != "" {
			labels = append(labels, x.Elem().FieldByName(label).String())
		}
		w.block(f.Name, func() { w.fill(f.Block, x.Interface()) }, labels...)
	}
}

// blockOf is jobspec.Block. Tasks and services are in a group.
func blockOf(names ...string) reflect.Type {
	return jobspec.Block(append([]string{"group"}, names...)...)
}

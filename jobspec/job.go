package jobspec

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"berth/internal/conf"
	"berth/structs"
)

// The blocks of a job file. A block whose fields have the order and types of its counterpart in structs
// converts to it, and the compiler checks that they agree. Unsupported has the names of the dialect that
// berth does not have yet. dialect.go has the names with a reason.

type jobFile struct {
	Jobs []*job `hcl:"job,block"`
}

type job struct {
	Label       string            `hcl:",label"`
	At          hcl.Range         `hcl:",range"`
	Region      string            `hcl:"region"`
	Namespace   string            `hcl:"namespace"`
	ID          string            `hcl:"id"`
	Name        string            `hcl:"name"`
	Type        string            `hcl:"type"`
	Priority    *int              `hcl:"priority"`
	AllAtOnce   bool              `hcl:"all_at_once"`
	Datacenters []string          `hcl:"datacenters"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta"`
	Constraints []*constraint     `hcl:"constraint,block"`
	Affinities  []*affinity       `hcl:"affinity,block"`
	Spreads     []*spread         `hcl:"spread,block"`
	Update      *update           `hcl:"update,block"`
	Migrate     *migrate          `hcl:"migrate,block"`
	Reschedule  *reschedule       `hcl:"reschedule,block"`
	Periodic    *periodic         `hcl:"periodic,block"`
	Parameters  *parameterized    `hcl:"parameterized,block"`
	Consul      *consul           `hcl:"consul,block"`
	Vault       *vault            `hcl:"vault,block"`
	Groups      []*group          `hcl:"group,block"`
	Tasks       []*task           `hcl:"task,block"` // each in a separate group
}

type group struct {
	Name          string             `hcl:",label"`
	At            hcl.Range          `hcl:",range"`
	Count         *int               `hcl:"count"`
	Constraints   []*constraint      `hcl:"constraint,block"`
	Affinities    []*affinity        `hcl:"affinity,block"`
	Spreads       []*spread          `hcl:"spread,block"`
	Restart       *restart           `hcl:"restart,block"`
	Reschedule    *reschedule        `hcl:"reschedule,block"`
	Update        *update            `hcl:"update,block"`
	Migrate       *migrate           `hcl:"migrate,block"`
	Scaling       *scaling           `hcl:"scaling,block"`
	Disconnect    *disconnect        `hcl:"disconnect,block"`
	EphemeralDisk *ephemeralDisk     `hcl:"ephemeral_disk,block"`
	Network       *network           `hcl:"network,block"`
	Volumes       map[string]*volume `hcl:"volume,block"`
	Services      []*service         `hcl:"service,block"`
	Consul        *consul            `hcl:"consul,block"`
	Vault         *vault             `hcl:"vault,block"`
	Meta          map[string]string  `hcl:"meta"`
	ShutdownDelay *time.Duration     `hcl:"shutdown_delay"`
	MaxRun        *time.Duration     `hcl:"max_run_duration"`
	Tasks         []*task            `hcl:"task,block"`

	FormerLostAfter *time.Duration `hcl:"max_client_disconnect"`        // lost_after
	FormerStopAfter *time.Duration `hcl:"stop_after_client_disconnect"` // stop_on_client_after
	FormerNoReplace *bool          `hcl:"prevent_reschedule_on_lost"`   // the opposite of replace
}

type task struct {
	Name            string            `hcl:",label"`
	At              hcl.Range         `hcl:",range"`
	Driver          string            `hcl:"driver,required"`
	User            string            `hcl:"user"`
	Config          map[string]any    `hcl:"config"`
	Env             map[string]string `hcl:"env"`
	Constraints     []*constraint     `hcl:"constraint,block"`
	Affinities      []*affinity       `hcl:"affinity,block"`
	Restart         *restart          `hcl:"restart,block"`
	Resources       *resources        `hcl:"resources,block"`
	Meta            map[string]string `hcl:"meta"`
	KillTimeout     time.Duration     `hcl:"kill_timeout"`
	KillSignal      string            `hcl:"kill_signal"`
	LogConfig       *logs             `hcl:"logs,block"`
	Leader          bool              `hcl:"leader"`
	Lifecycle       *lifecycle        `hcl:"lifecycle,block"`
	ShutdownDelay   time.Duration     `hcl:"shutdown_delay"`
	VolumeMounts    []*volumeMount    `hcl:"volume_mount,block"`
	Templates       []*templateBlock  `hcl:"template,block"`
	CSIPluginConfig *csiPlugin        `hcl:"csi_plugin,block"`
	Artifacts       []*artifact       `hcl:"artifact,block"`
	Services        []*service        `hcl:"service,block"`
	Consul          *consul           `hcl:"consul,block"`
	Vault           *vault            `hcl:"vault,block"`
	Kind            string            `hcl:"kind"`
	Identities      []*identity       `hcl:"identity,block"`
	Actions         []*action         `hcl:"action,block"`

	DispatchPayload *dispatchPayload `hcl:"dispatch_payload,block"`
}

// consul lets a task, or the tasks of a group, log in at Consul. A node has one Consul.
type consul struct {
	Cluster consulCluster `hcl:"cluster"`
}

type consulCluster struct{}

// Expected describes the name that the dialect gives to the only Consul of a node.
func (*consulCluster) Expected() string { return `"default"` }

// UnmarshalText accepts the name of the only Consul.
func (c *consulCluster) UnmarshalText(text []byte) error {
	if len(text) > 0 && string(text) != "default" {
		return fmt.Errorf("a node has one Consul, not %.40q; expected %s", text, c.Expected())
	}
	return nil
}

type periodic struct {
	Enabled         *bool    `hcl:"enabled"`
	Spec            string   `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	ProhibitOverlap bool     `hcl:"prohibit_overlap"`
	TimeZone        string   `hcl:"time_zone"`
}

type parameterized struct {
	Payload      string   `hcl:"payload"`
	MetaRequired []string `hcl:"meta_required"`
	MetaOptional []string `hcl:"meta_optional"`
}

// action is a command that users run in the task by its name.
type action struct {
	Name    string   `hcl:",label"`
	Command string   `hcl:"command,required"`
	Args    []string `hcl:"args"`
}

type dispatchPayload struct {
	File string `hcl:"file,required"`
}

type lifecycle struct {
	Hook    string `hcl:"hook,required"`
	Sidecar bool   `hcl:"sidecar"`
}

type restart struct {
	Attempts *int           `hcl:"attempts"`
	Interval *time.Duration `hcl:"interval"`
	Delay    *time.Duration `hcl:"delay"`
	Mode     *string        `hcl:"mode"`
}

// update is in a job the default of its groups.
type update struct {
	Stagger          *time.Duration `hcl:"stagger"`
	MaxParallel      *int           `hcl:"max_parallel"`
	HealthCheck      *string        `hcl:"health_check"`
	MinHealthyTime   *time.Duration `hcl:"min_healthy_time"`
	HealthyDeadline  *time.Duration `hcl:"healthy_deadline"`
	ProgressDeadline *time.Duration `hcl:"progress_deadline"`
	AutoRevert       *bool          `hcl:"auto_revert"`
	AutoPromote      *bool          `hcl:"auto_promote"`
	Canary           *int           `hcl:"canary"`
}

// migrate is in a job the default of its groups.
type migrate struct {
	MaxParallel     *int           `hcl:"max_parallel"`
	HealthCheck     *string        `hcl:"health_check"`
	MinHealthyTime  *time.Duration `hcl:"min_healthy_time"`
	HealthyDeadline *time.Duration `hcl:"healthy_deadline"`
}

type scaling struct {
	Enabled *bool          `hcl:"enabled"`
	Type    string         `hcl:"type"`
	Min     *int64         `hcl:"min"`
	Max     int64          `hcl:"max,required"`
	Policy  map[string]any `hcl:"policy"`
}

type disconnect struct {
	LostAfter         time.Duration  `hcl:"lost_after"`
	StopOnClientAfter *time.Duration `hcl:"stop_on_client_after"`
	Replace           *bool          `hcl:"replace"`
	Reconcile         string         `hcl:"reconcile"`
}

type reschedule struct {
	Attempts      *int           `hcl:"attempts"`
	Interval      *time.Duration `hcl:"interval"`
	Delay         *time.Duration `hcl:"delay"`
	DelayFunction *string        `hcl:"delay_function"`
	MaxDelay      *time.Duration `hcl:"max_delay"`
	Unlimited     *bool          `hcl:"unlimited"`
}

type ephemeralDisk struct {
	Size    *int `hcl:"size"`
	Sticky  bool `hcl:"sticky"`
	Migrate bool `hcl:"migrate"`
}

type network struct {
	At       hcl.Range `hcl:",range"`
	Mode     string    `hcl:"mode"`
	Ports    []*port   `hcl:"port,block"`
	DNS      *dns      `hcl:"dns,block"`
	Hostname string    `hcl:"hostname"`
}

type dns struct {
	Servers  []string `hcl:"servers"`
	Searches []string `hcl:"searches"`
	Options  []string `hcl:"options"`
}

type port struct {
	Label       string `hcl:",label"`
	Static      *int   `hcl:"static"`
	To          int    `hcl:"to"`
	HostNetwork string `hcl:"host_network"`
}

type volume struct {
	Type           string                    `hcl:"type,required"`
	Source         string                    `hcl:"source"`
	Class          string                    `hcl:"class"`
	Size           byteSize                  `hcl:"size"`
	Lifecycle      string                    `hcl:"lifecycle"`
	ReadOnly       bool                      `hcl:"read_only"`
	AccessMode     structs.CSIAccessMode     `hcl:"access_mode"`
	AttachmentMode structs.CSIAttachmentMode `hcl:"attachment_mode"`
	MountOptions   *mountOptions             `hcl:"mount_options,block"`
	PerAlloc       bool                      `hcl:"per_alloc"`
	Sticky         bool                      `hcl:"sticky"`
	OnDeadMount    string                    `hcl:"on_dead_mount"`
	Ownership      *ownership                `hcl:"ownership,block"`
	PluginID       string                    `hcl:"plugin_id"`
	Parameters     map[string]string         `hcl:"parameters"`
}

type ownership struct {
	Owner  string `hcl:"owner"`
	Group  string `hcl:"group"`
	Mode   string `hcl:"mode"`
	Policy string `hcl:"policy"`
}

type mountOptions struct {
	FSType     string   `hcl:"fs_type"`
	MountFlags []string `hcl:"mount_flags"`
}

type resources struct {
	CPU         int `hcl:"cpu"`
	Cores       int `hcl:"cores"`
	MemoryMB    int `hcl:"memory"`
	MemoryMaxMB int `hcl:"memory_max"`

	Devices  []*device  `hcl:"device,block"`
	Networks []*network `hcl:"network,block"` // its former place
}

type device struct {
	Name        string        `hcl:",label"`
	Count       *uint64       `hcl:"count"`
	Constraints []*constraint `hcl:"constraint,block"`
	Affinities  []*affinity   `hcl:"affinity,block"`
}

// affinity has the long form (attribute, operator, value) and the short ones of a constraint.
type affinity struct {
	constraint
	Weight *int8 `hcl:"weight"`
}

type logs struct {
	MaxFiles      int   `hcl:"max_files"`
	MaxFileSizeMB int   `hcl:"max_file_size"`
	Disabled      bool  `hcl:"disabled"`
	Enabled       *bool `hcl:"enabled"` // the former name, with the opposite value
}

type volumeMount struct {
	Volume          string `hcl:"volume,required"`
	Destination     string `hcl:"destination,required"`
	ReadOnly        bool   `hcl:"read_only"`
	PropagationMode string `hcl:"propagation_mode"`
	SubPath         string `hcl:"sub_path"`

	Snapshot *snapshotCommands `hcl:"snapshot,block"`
}

type snapshotCommands struct {
	Pre     []string      `hcl:"pre"`
	Post    []string      `hcl:"post"`
	Timeout time.Duration `hcl:"timeout"`
}

// mounts converts the blocks of a task.
func mounts(blocks []*volumeMount) (out []*structs.VolumeMount) {
	for _, m := range blocks {
		out = append(out, &structs.VolumeMount{
			Volume:          m.Volume,
			Destination:     m.Destination,
			ReadOnly:        m.ReadOnly,
			PropagationMode: m.PropagationMode,
			SubPath:         m.SubPath,
			Snapshot:        (*structs.SnapshotCommands)(m.Snapshot),
		})
	}
	return out
}

type csiPlugin struct {
	ID                  string        `hcl:"id,required"`
	Type                string        `hcl:"type,required"`
	MountDir            string        `hcl:"mount_dir"`
	StagePublishBaseDir string        `hcl:"stage_publish_base_dir"`
	HealthTimeout       time.Duration `hcl:"health_timeout"`
	HangTimeout         time.Duration `hcl:"hang_timeout"`
	FormerProvider      string        `hcl:"former_provider"`
	Tokens              []*csiToken   `hcl:"token,block"`
	TokensIn            string        `hcl:"tokens_in"`
	RequiresRepublish   bool          `hcl:"requires_republish"`
}

type csiToken struct {
	Audience string        `hcl:"audience,required"`
	TTL      time.Duration `hcl:"ttl"`
}

type artifact struct {
	GetterSource   string            `hcl:"source,required"`
	GetterOptions  map[string]string `hcl:"options"`
	GetterHeaders  map[string]string `hcl:"headers"`
	GetterMode     string            `hcl:"mode"`
	GetterInsecure bool              `hcl:"insecure"`
	RelativeDest   string            `hcl:"destination"`
	Chown          bool              `hcl:"chown"`
}

// constraint has the long form (attribute, operator, value) and short ones that name the operator.
type constraint struct {
	At             hcl.Range `hcl:",range"`
	Attribute      string    `hcl:"attribute"`
	Operator       string    `hcl:"operator"`
	Value          *string   `hcl:"value"`
	Version        *string   `hcl:"version"`
	Semver         *string   `hcl:"semver"`
	Regexp         *string   `hcl:"regexp"`
	SetContains    *string   `hcl:"set_contains"`
	SetContainsAll *string   `hcl:"set_contains_all"`
	SetContainsAny *string   `hcl:"set_contains_any"`
	DistinctHosts  *bool     `hcl:"distinct_hosts"`

	DistinctProperty *string `hcl:"distinct_property"` // the attribute; Value is the limit
}

type spread struct {
	Attribute string          `hcl:"attribute,required"`
	Weight    *int8           `hcl:"weight"`
	Targets   []*spreadTarget `hcl:"target,block"`
}

type spreadTarget struct {
	Value   string `hcl:",label"`
	Percent uint8  `hcl:"percent"`
}

// Block returns the type of a block of a job file by the names of the blocks around it, beginning in the job.
// Its tags name what a writer of such files writes: see conf.Fields.
func Block(names ...string) reflect.Type {
	t := reflect.TypeFor[job]()
	for _, name := range names {
		fields, _ := conf.Fields(t)
		i := slices.IndexFunc(fields, func(f conf.Field) bool { return f.Name == name })
		t = fields[i].Block // the names are constants
	}
	return t
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-viper/mapstructure/v2"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
)

// config is every setting that a flag, CASERUN_* or the configuration file can
// give. The tag is the flag's name; in the environment it is upper case with
// underscores.
type config struct {
	DB      string        `mapstructure:"db"`
	Format  string        `mapstructure:"format"`
	Node    string        `mapstructure:"node"`
	Devices string        `mapstructure:"devices"`
	Sched   string        `mapstructure:"sched"`
	Workers int           `mapstructure:"workers"`
	Timeout time.Duration `mapstructure:"timeout"`
	MemCap  string        `mapstructure:"mem-cap"`
	SMCap   int           `mapstructure:"sm-cap"`
	NoMPS   bool          `mapstructure:"no-mps"`
	Guard   bool          `mapstructure:"guard"`
	Context string        `mapstructure:"context-reserve"`
	Isolate bool          `mapstructure:"isolate-faults"`
	Retry   bool          `mapstructure:"retry-collateral"` // the old name of isolate-faults
	Trace   bool          `mapstructure:"trace"`
	Tag     string        `mapstructure:"tag"`
	Suite   string        `mapstructure:"suite"`
	Data    string        `mapstructure:"data"`
	Runs    string        `mapstructure:"runs"`
	Seed    uint64        `mapstructure:"seed"`
	Noise   float64       `mapstructure:"sim-noise"`
	// Profiles is a file with what jobs do alone, beside the catalog's.
	Profiles string `mapstructure:"profiles"`
}

// defaultConfigFile is read where it exists and neither --config nor
// CASERUN_CONFIG names another.
const (
	defaultConfigFile = "caserun.yaml"
	configFileEnv     = "CASERUN_CONFIG"
)

const defaultStore = "caserun.db"

// Flags that several commands share.
func addStoreFlags(f *pflag.FlagSet) {
	f.String("db", defaultStore, "store `FILE`")
}

func addFormatFlag(c *cobra.Command) {
	c.Flags().String("format", "table", "output `FORMAT`: table, csv, json or markdown")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(
		[]string{"table", "csv", "json", "markdown"}, cobra.ShellCompDirectiveNoFileComp))
}

func addRunFlags(f *pflag.FlagSet) {
	addNodeFlags(f)
	f.String("sched", "case-alg3", "`SCHEDULER` with parameters, as case-alg3:queue=fifo,age-limit=8; see caserun schedulers")
	f.Bool("isolate-faults", false, "run jobs that a fault under MPS took down again after the batch, each alone on a GPU, to find out whose it was")
	f.Bool("retry-collateral", false, "the old name of --isolate-faults")
	_ = f.MarkHidden("retry-collateral")
}

func addSuiteFlag(f *pflag.FlagSet) {
	f.String("suite", live.BuiltinSuite, "where programs come from: builtin, or a `DIR` with your own Rodinia or Darknet build")
}

func addDevicesFlag(f *pflag.FlagSet) {
	f.String("devices", "", "`LIST` of this machine's GPUs to use, with commas: numbers in PCI bus order, UUIDs or their beginnings; by default those of CUDA_VISIBLE_DEVICES, or all (local node)")
}

// addNodeFlags adds what is the same for every run of a sweep.
func addNodeFlags(f *pflag.FlagSet) {
	f.String("node", "", "`NODE` to run on: local, or sim:COUNTxMODEL such as sim:4xV100; by default local where there is a GPU, else sim:4xV100")
	addDevicesFlag(f)
	f.Int("workers", 0, "jobs on the node at once (cg, task-bound schedulers); 0: cg two for each device, others one for each host thread")
	f.Duration("timeout", 0, "stop a job that runs longer than `DURATION`; 0: never")
	f.String("mem-cap", "", "make each GPU behave as one with `SIZE` of memory, such as 16GiB (local node)")
	f.Bool("no-mps", false, "let jobs share a GPU by time slices, without MPS: a fault then harms nobody else, and kernels do not overlap")
	f.Bool("guard", false, "map nothing beside allocations, so that a kernel that reads or writes outside its own faults; the run is marked as guarded (local node)")
	f.Int("sm-cap", 0, "let jobs use at most so many SMs of each GPU, through MPS (local node); 0: all")
	f.String("context-reserve", mixes.FormatBytes(runner.DefaultContextBytes), "`SIZE` of device memory set aside for each process's CUDA context; caserun doctor measures it (local node)")
	f.Bool("trace", false, "record every kernel and copy of the jobs; this costs time, and the run is marked as traced (local node)")
	f.String("tag", "", "`TEXT` to find the run by, such as nightly-2026-11-21")
	addSuiteFlag(f)
	f.String("data", "data", "`DIR` with the programs' input files")
	f.String("runs", "caserun-runs", "`DIR` for the jobs' output files")
	f.Uint64("seed", 1, "seed of everything random in a run")
	f.String("profiles", "", "`FILE` of caserun profile: what jobs do alone, for simulated nodes and as footprints, beside the catalog's")
	f.Float64("sim-noise", 0, "simulated node: σ of the logarithm of each phase's length")
}

// loadConfig settles the configuration for a command: flag before environment
// before file before default.
func loadConfig(c *cobra.Command) (config, error) { return loadConfigOver(c, nil) }

// loadConfigOver is loadConfig with settings that go before the configuration
// file's.
func loadConfigOver(c *cobra.Command, over map[string]any) (config, error) {
	v := viper.New()
	for _, key := range settingKeys() {
		if flag := settingFlag(c, key); flag != nil {
			if err := v.BindPFlag(key, flag); err != nil {
				return config{}, fmt.Errorf("bind --%s: %w", key, err)
			}
		}
		if err := v.BindEnv(key, variableOf(key)); err != nil {
			return config{}, fmt.Errorf("bind environment of %s: %w", key, err)
		}
	}
	file, err := c.Flags().GetString("config")
	if err != nil {
		return config{}, err
	}
	if file == "" {
		file = os.Getenv(configFileEnv)
	}
	explicit := file != ""
	if !explicit {
		file = defaultConfigFile
	}
	settings, err := readSettings(c.Context(), file)
	if err != nil && (explicit || !errors.Is(err, os.ErrNotExist)) {
		return config{}, usageError(fmt.Errorf("configuration file %w", err))
	}
	if err := checkEnvironment(); err != nil {
		return config{}, usageError(err)
	}
	if err := errors.Join(v.MergeConfigMap(settings), v.MergeConfigMap(over)); err != nil {
		return config{}, usageError(fmt.Errorf("configuration: %w", err))
	}
	out, err := decode(v)
	if err != nil {
		return config{}, usageError(fmt.Errorf("configuration: %w", err))
	}
	if out.DB == "" && settingFlag(c, "db") != nil {
		return config{}, usageError(errNoStore)
	}
	if out.Retry {
		fmt.Fprintln(c.ErrOrStderr(), "caserun: retry-collateral is now called isolate-faults: change the flag, the variable or the configuration file that says so")
		out.Isolate, out.Retry = true, false
	}
	return out, out.check()
}

// settingKeys are the names of all settings.
func settingKeys() (keys []string) {
	for field := range reflect.TypeFor[config]().Fields() {
		keys = append(keys, field.Tag.Get("mapstructure"))
	}
	return keys
}

// settingFlag is a command's flag for a setting, if it has that setting.
func settingFlag(c *cobra.Command, key string) *pflag.Flag {
	flag := c.Flags().Lookup(key)
	if flag == nil || flag.Annotations[noSetting] != nil {
		return nil
	}
	return flag
}

// noSetting annotates a flag that has a setting's name and means something else.
const noSetting = "no-setting"

// readSettings reads a configuration file: settings as they are written, by key.
func readSettings(ctx context.Context, path string) (map[string]any, error) {
	out := map[string]any{}
	flags := settingFlags()
	err := readYAML(ctx, path, func(key string, at, value ast.Node) (err error) {
		flag := flags.Lookup(key)
		if flag == nil {
			return failAt(at, "unknown key %q: caserun mix --show-config prints all that there are", key)
		}
		out[key], err = setFlag(flag, key, value)
		return err
	})
	return out, err
}

// recordedConfig is the configuration that settings by key make, and nothing
// else: neither flags nor environment nor file.
func recordedConfig(settings map[string]any) (config, error) {
	v := viper.New()
	if err := v.MergeConfigMap(settings); err != nil {
		return config{}, err
	}
	return decode(v)
}

func decode(v *viper.Viper) (config, error) {
	var out config
	err := v.Unmarshal(&out, func(d *mapstructure.DecoderConfig) { d.ErrorUnused = true })
	return out, err
}

// settings is the configuration by key, as --show-config prints and the store
// keeps it.
func (c config) settings() yaml.MapSlice {
	var out yaml.MapSlice
	value := reflect.ValueOf(c)
	for field := range value.Type().Fields() {
		if field.Name == "Retry" {
			continue // loadConfig has settled it
		}
		v := value.FieldByIndex(field.Index).Interface()
		if d, ok := v.(time.Duration); ok {
			v = d.String()
		}
		out = append(out, yaml.MapItem{Key: field.Tag.Get("mapstructure"), Value: v})
	}
	return out
}

// sweepSettings are the settings that all runs of a sweep share.
func (c config) sweepSettings() map[string]any {
	out := map[string]any{}
	for _, item := range c.settings() {
		switch key := item.Key.(string); key {
		case "db", "format", "sched", "isolate-faults":
		default:
			out[key] = item.Value
		}
	}
	return out
}

// storeFlag is the flag that a command which a hint names takes, if any, so that it
// finds the same store.
func (c config) storeFlag() string {
	switch {
	case c.DB == defaultStore:
		return ""
	case strings.ContainsFunc(c.DB, unicode.IsSpace):
		return " --db " + strconv.Quote(c.DB)
	}
	return " --db " + c.DB
}

// escaped is text with escapes that YAML and Go both know.
type escaped string

// MarshalYAML implements yaml.BytesMarshaler.
func (e escaped) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(e))), nil }

// printOf prints the settings that a command has.
func (c config) printOf(command *cobra.Command) error {
	shown := slices.DeleteFunc(c.settings(), func(item yaml.MapItem) bool {
		return settingFlag(command, item.Key.(string)) == nil
	})
	for i, item := range shown {
		if text, ok := item.Value.(string); ok && report.Printable(text, "") != text {
			shown[i].Value = escaped(text)
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	_, err = command.OutOrStdout().Write(text)
	return err
}

/* What pyslurm 25.11 expects of Slurm's headers and those of 24.11 do not have. Every source file includes it. */
#include <stdint.h>
#include <slurm/slurm.h>
#include <slurm/slurmdb.h>

/* Types and constants with new names, or that are new. */
typedef uint16_t select_type_flags_t;
typedef uint32_t slurmdb_cluster_flags_t;
typedef uint32_t slurmdb_qos_flags_t;
#define SELECT_BOARD CR_BOARD
#define SELECT_CORE CR_CORE
#define SELECT_CORE_DEFAULT_DIST_BLOCK CR_CORE_DEFAULT_DIST_BLOCK
#define SELECT_CPU CR_CPU
#define SELECT_LLN CR_LLN
#define SELECT_MEMORY CR_MEMORY
#define SELECT_ONE_TASK_PER_CORE CR_ONE_TASK_PER_CORE
#define SELECT_PACK_NODES CR_PACK_NODES
#define SELECT_SOCKET CR_SOCKET
#define CONSOLIDATE_SEGMENTS 0
#define SPREAD_SEGMENTS 0

/* Functions of steps that took two numbers where 25.11 takes one record. */
#define slurm_get_job_steps(step, answer, flags) \
    slurm_get_job_steps((time_t) 0, (step)->job_id, (step)->step_id, answer, flags)
#define slurm_kill_job_step(step, number, flags) \
    slurm_kill_job_step((step)->job_id, (step)->step_id, number, flags)
#define slurm_signal_job_step(step, number) slurm_signal_job_step((step)->job_id, (step)->step_id, number)

/* Functions that 24.11 does not have. makeway calls none of them. */
#define slurm_expand_step_stdio_fields(path, step) ((char *) 0)
#define slurmdb_expand_job_stdio_fields(path, job) ((char *) 0)
#define slurmdb_expand_step_stdio_fields(path, step) ((char *) 0)

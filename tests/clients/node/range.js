// Kafka's range assignor for kafkajs, which ships round robin only: each topic's partitions in
// order, the first members one more than the others. Without racks.
'use strict'

const { AssignerProtocol } = require('kafkajs')

const NAME = 'range'

exports.rangeAssigner = ({ cluster }) => ({
  name: NAME,
  version: 0,

  async assign({ members, topics }) {
    const assigned = new Map(members.map(({ memberId }) => [memberId, {}]))
    for (const topic of topics) {
      const subscribers = members
        .filter(({ memberMetadata }) => subscribedTopics(memberMetadata).includes(topic))
        .map(({ memberId }) => memberId)
        .sort()
      const partitions = cluster
        .findTopicPartitionMetadata(topic)
        .map(({ partitionId }) => partitionId)
        .sort((one, other) => one - other)
      share(partitions, subscribers.length).forEach((part, index) => {
        assigned.get(subscribers[index])[topic] = part
      })
    }
    return [...assigned].map(([memberId, assignment]) => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment }),
    }))
  },

  protocol({ topics }) {
    return { name: NAME, metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics }) }
  },
})

function subscribedTopics(memberMetadata) {
  return AssignerProtocol.MemberMetadata.decode(memberMetadata).topics
}

function share(partitions, count) {
  const parts = []
  let next = 0
  for (let index = 0; index < count; index++) {
    const size = Math.floor(partitions.length / count) + (index < partitions.length % count ? 1 : 0)
    parts.push(partitions.slice(next, next + size))
    next += size
  }
  return parts
}
